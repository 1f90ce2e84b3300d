// Package projection keeps who holds which lock in a NATS key-value bucket, from the event log. So a program in any
// language that can watch a bucket knows the holders, and need not read the log.
//
// # Usage
//
//	p, err := projection.New(projection.Config{Log: natslog.ReaderConfig{...}, Bucket: "holders"})
//	...
//	err = p.Run(ctx)
//
// # The bucket
//
// Each lock that somebody holds has a key, as [Key] makes it, and a [Value] in JSON. The key is removed when the last
// hold has ended, or when another grant shows that it is over. Holds that begin and end within a tenth of a second may
// not be seen. The key [StatusKey] has a [Status], which is written every ten seconds: if it is old, the bucket is
// stale.
//
// A projector that starts reads the log first. Then it compares the bucket with what the log says, and writes what is
// stale, and nothing else. Until then the bucket stays as it was.
//
// # Guarantees
//
// Several projectors may keep one bucket. Each write names the revision that it replaces. A projector that finds that
// another one has written something else reads the log up to its end before it writes again. So of one key, no write is
// followed by one that knows less of the log.
//
// # Not guaranteed
//
// The bucket is behind the log, and the log is behind the locks. Nobody may conclude from the bucket that a lock is
// free to be used: only the store grants locks. An agent that has crashed cannot say that its holds are over: see
// Holder.Silent and Holder.Gone.
//
// # Concurrency
//
// A [Projector] is for one goroutine, except for [Projector.Stats].
//
// # Testing
//
// The tests run against a real NATS server.
package projection
