// Package stat has the few statistics that the benchmark reports: medians of paired
// rounds and their spread, fairness, and distributions of latencies.
package stat

import (
	"math"
	"slices"
)

// Estimate is what several rounds say of one figure.
type Estimate struct {
	// Median of the rounds, which is what is reported.
	Median float64 `json:"median"`
	// Low and High are the least and the most that a round had.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Noise is by which part of it the median may be wrong: three times its
	// standard error, from the median deviation of the rounds. It is 0 for a single
	// round.
	Noise float64 `json:"noise"`
	// Rounds is how many there were.
	Rounds int `json:"rounds"`
}

// Of sums up the figures of several rounds. The Estimate of none is zero.
func Of(rounds ...float64) Estimate {
	if len(rounds) == 0 {
		return Estimate{}
	}
	return Estimate{
		Median: Median(rounds), Low: slices.Min(rounds), High: slices.Max(rounds),
		Noise: noise(rounds), Rounds: len(rounds),
	}
}

// Median is the middle one of some figures, or the mean of the two that are. It is
// not a number if there are none.
func Median(figures []float64) float64 {
	if len(figures) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(figures))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// noise uses the median of the deviations from the median. So a round that
// other work has disturbed counts as one round, however far off it is.
func noise(rounds []float64) float64 {
	middle := Median(rounds)
	if len(rounds) < 2 || middle == 0 { // of which there are no parts
		return 0
	}
	deviations := make([]float64, len(rounds))
	for i, r := range rounds {
		deviations[i] = math.Abs(r - middle)
	}
	const (
		sigmas       = 1.4826 // of a normal distribution in one median deviation
		medianToMean = 1.2533 // the standard error of a median to that of a mean
		confidence   = 3
	)
	return confidence * medianToMean * sigmas * Median(deviations) / math.Sqrt(float64(len(rounds))) / math.Abs(middle)
}

// Jain is Jain's index of fairness: 1 if all have the same, 1/n if one has all. It is
// 1 if nobody has anything.
func Jain(shares []int64) float64 {
	var sum, squares float64
	for _, s := range shares {
		sum += float64(s)
		squares += float64(s) * float64(s)
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(shares)) * squares)
}
