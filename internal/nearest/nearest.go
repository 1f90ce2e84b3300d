// Package nearest finds what somebody may have meant who wrote a word that is not known.
package nearest

import "iter"

// far is the distance from which on two words have nothing to do with each other.
const far = 3

// Of returns the candidate that is most like word, or "" if none is. It returns the first of several that are equally
// so.
func Of(word string, candidates iter.Seq[string]) string {
	best, least := "", min(far, len(word)/2+1) // a short word is soon like another one
	for c := range candidates {
		if d := distance(c, word); d < least {
			best, least = c, d
		}
	}
	return best
}

// distance is how many letters have to be added, removed or replaced to make b of a.
func distance(a, b string) int {
	if max(len(a)-len(b), len(b)-len(a)) >= far {
		return far // at least, and b may be very long
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := corner
			if a[i] != b[j] {
				cost++
			}
			corner = row[j+1]
			row[j+1] = min(row[j+1]+1, row[j]+1, cost)
		}
	}
	return row[len(b)]
}
