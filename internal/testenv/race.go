//go:build race

package testenv

// RaceDetector says whether tests and binary have the race detector, which makes them several times slower.
const RaceDetector = true
