package webui

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
)

//go:embed static
var assets embed.FS

// static answers with the files of the page. A browser keeps them, and asks each time whether they are the same.
func static() http.Handler {
	tags := make(map[string]string)
	err := fs.WalkDir(assets, "static", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := assets.ReadFile(path)
		sum := sha256.Sum256(text)
		tags["/"+path] = `"` + hex.EncodeToString(sum[:8]) + `"`
		return err
	})
	if err != nil {
		panic(err) // the files are in the program
	}
	serve := http.FileServerFS(assets)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tag, ok := tags[r.URL.Path]
		if !ok {
			http.NotFound(w, r) // rather than a list of files
			return
		}
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", tag)
		serve.ServeHTTP(w, r)
	})
}
