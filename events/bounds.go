package events

import "context"

// Bounds returns the positions of the first and the last message that the stream has now. If it
// has none, last is less than first.
//
// It returns the cause of ctx, [ErrNoStream], a [*PermissionError], or why the server does not answer.
func (r *Reader) Bounds(ctx context.Context) (first, last uint64, err error) {
	ctx, done := r.whilePermitted(ctx)
	defer done()
	stream, err := r.stream(ctx)
	if err != nil {
		return 0, 0, err
	}
	state := stream.CachedInfo().State
	return state.FirstSeq, state.LastSeq, nil
}
