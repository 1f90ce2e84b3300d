package events

func (a *Audit) clone() *Audit { return a }
