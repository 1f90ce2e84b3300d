// Package webui is the live page of a daemon. It shows who holds which lock, who waits, what was lost, and what happens
// now.
//
// # Usage
//
// [New] makes an [http.Handler]. It calls the API of the daemon, watches its changes, and reads its event log. The page
// computes no state of its own. The fleet is a fold of the hub's log, which goes on when somebody looks.
//
// The server renders all pages, so they work without scripts, as a snapshot. A script of this package follows a stream
// of server-sent events, which brings the same content again when something changes, and every two seconds.
//
// # Who sees what
//
// [Config.Access] knows who asks by the context of a request. Whatever is on a page is what that user may look at. A
// lock is broken only if [Config.AllowBreak] says so, and then by the same call and the same rules as on the socket of
// the daemon.
//
// A browser asks for whatever a foreign page tells it to. So the page answers only under names of this host. A foreign
// name that leads here (DNS rebinding) is none of them. It answers no requests that another origin has made, but for
// plain links. It has no scripts and styles but its own.
//
// A page is a tree of nodes of the library gomponents, which escapes texts and attributes. Each address in it begins
// with a path of the page. What a user has written stands in its query.
//
// # Bounds
//
// [Access.Stream] bounds how many streams a user has. A stream sends whole contents, so a slow reader has no backlog,
// and one that does not read for ten seconds is dropped. Lists have pages. What is read from the event log is bounded
// in number and time.
//
// # Concurrency
//
// The handler is safe for concurrent use. It has no goroutines but those of its requests.
package webui
