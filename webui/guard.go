package webui

import (
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
)

// policy allows nothing but what comes from the page itself, and no script or style in a document.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// headers are those of every answer.
var headers = map[string]string{
	"Content-Security-Policy":      policy,
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Permissions-Policy":           "camera=(), geolocation=(), microphone=()",
	"Cache-Control":                "no-store",
}

// maxForm bounds what a browser may send.
const maxForm = 64 << 10

// guard refuses what another origin has a browser ask for.
func (p *page) guard(next http.Handler) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	crossOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.refuse(
			w, r, "The request comes from another page",
			"Only the forms of this page can change something. Open the page itself and try again.",
		)
	}))
	protected := crossOrigin.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer p.recovered(w, r)
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		switch {
		case !p.ours(r.Host):
			p.refuse(
				w, r, "The page has another name",
				"The page answers only to localhost, to addresses, and to the name of this host. Open http://localhost with the "+
					"same port.",
			)
		case foreign(r):
			p.refuse(
				w, r, "The request comes from another page",
				"Other pages can link to this page, and cannot use it. Open the page itself.",
			)
		default:
			r.Body = http.MaxBytesReader(w, r.Body, maxForm)
			protected.ServeHTTP(w, r)
		}
	})
}

// recovered ends a request in which a defect has shown.
func (p *page) recovered(w http.ResponseWriter, r *http.Request) {
	switch defect := recover(); defect {
	case nil:
	case http.ErrAbortHandler:
		panic(defect) // which is how a handler gives up an answer
	default:
		p.Logger.ErrorContext(
			r.Context(), "lockagent: recovered from a panic", "of", r.URL.Path, "panic", defect, "stack", string(debug.Stack()),
		)
		p.fail(w, r, &Problem{http.StatusInternalServerError, "This page has a defect", "The log of the daemon tells more."})
	}
}

// ours reports whether a browser may ask for the page by the name in a Host header. A foreign name that leads to this
// host is none: the pages of its owner would count as the same origin. An address leads to where it says.
func (p *page) ours(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	named := func(own string) bool { return own != "" && strings.EqualFold(own, name) }
	return named("localhost") || named(p.Host) || slices.ContainsFunc(p.Names, named)
}

// foreign reports whether a page of another origin has made a request, and is not left by it: it has followed no link.
func foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document" ||
		r.Method != http.MethodGet
}
