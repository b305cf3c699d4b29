//go:build !race

package whole_test

const raceDetector = false
