// Package forgets has only tests. It asks of other libraries what package forgettest asks of this project: what does it
// cost if the store forgets? Nothing judges their answers: make soak prints them as a table.
package forgets
