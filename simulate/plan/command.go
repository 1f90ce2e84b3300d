package plan

// Command is a script that the server ran, or FLUSHALL. Answers are as in the protocol (RESP2).
type Command struct {
	At     int64    // the time of the server in microseconds
	Digest string   // of the script; "" of FLUSHALL
	Source string   // of the script, the first time
	Args   [][]byte // of EVAL, behind the script
	Asked  []Asked  // what the script asked of the server, where the answer depends on more than the data
	Answer []byte
}

// Asked is a command of a script, with its arguments, and the answer.
type Asked struct{ Command, Answer []byte }
