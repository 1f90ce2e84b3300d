// Command nothing does nothing. What it takes is what the start of a Go program takes.
package main

func main() {}
