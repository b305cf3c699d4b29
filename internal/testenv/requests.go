package testenv

import (
	"bytes"
	"strconv"
)

// requests finds where the requests of a Redis client end in what it sends. What does not begin as such a client does
// has none.
type requests struct {
	foreign bool
	began   bool
	line    []byte   // of a header, so far
	left    int      // words of the request that have not begun
	bulk    int      // bytes of the word that are to come, with the CR and LF behind it
	words   []string // of the request, the first ones
	word    []byte   // so far
}

// keptWords is how many words of a request are told.
const keptWords = 2

// next reads up to the end of a request, or all of data where it ends later, and gives how much that is. At the end of a
// request it gives the first words of it as well.
func (r *requests) next(data []byte) (int, []string) {
	if !r.began && len(data) > 0 {
		r.began, r.foreign = true, data[0] != '*'
	}
	for at := 0; at < len(data); {
		switch {
		case r.foreign:
			return len(data), nil
		case r.bulk > 0:
			at += r.takeWord(data[at:])
		default:
			at += r.takeLine(data[at:])
		}
		if r.left == 0 && r.bulk == 0 && len(r.line) == 0 && r.words != nil {
			words := r.words
			r.words = nil
			return at, words
		}
	}
	return len(data), nil
}

// takeWord reads of a word what is there.
func (r *requests) takeWord(data []byte) int {
	n := min(r.bulk, len(data))
	r.bulk -= n
	if len(r.words) < keptWords {
		r.word = append(r.word, data[:n]...)
		if r.bulk == 0 {
			r.words = append(r.words, string(bytes.TrimSuffix(r.word, []byte("\r\n"))))
			r.word = r.word[:0]
		}
	}
	return n
}

// takeLine reads of a header what is there: how many words a request has, or how long the next one is.
func (r *requests) takeLine(data []byte) int {
	n := bytes.IndexByte(data, '\n') + 1
	if n == 0 {
		r.line = append(r.line, data...)
		return len(data)
	}
	line := bytes.TrimRight(append(r.line, data[:n]...), "\r\n")
	size, err := strconv.Atoi(string(line[min(1, len(line)):]))
	switch {
	case err != nil || size < 0:
		r.foreign = true
	case line[0] == '*':
		r.left, r.words = size, make([]string, 0, keptWords)
	default:
		r.left, r.bulk = r.left-1, size+len("\r\n")
	}
	r.line = r.line[:0]
	return n
}
