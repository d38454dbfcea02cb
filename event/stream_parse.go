package event

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// SplitMessages reads the body of a write to a stream of JSON messages: one JSON value, or an array
// whose elements are a message each, however they nest themselves. An empty array gives none. The
// messages are slices of body. Errors are *[SyntaxError], and *[TooLarge] for a message of more than
// [MaxEventBytes].
func SplitMessages(body []byte) ([][]byte, error) {
	b := bytes.TrimSpace(body)
	switch {
	case !utf8.Valid(b):
		return nil, &SyntaxError{"the body is not valid UTF-8"}
	case depth(b) > MaxDepth:
		return nil, &SyntaxError{fmt.Sprintf("the body nests deeper than %d", MaxDepth)}
	case !gjson.ValidBytes(b):
		return nil, &SyntaxError{"the body is not valid JSON"}
	}
	messages := [][]byte{b}
	if b[0] == '[' {
		messages = elements(b)
	}
	for _, m := range messages {
		if len(m) > MaxEventBytes {
			return nil, &TooLarge{What: "bytes of one message", Limit: MaxEventBytes}
		}
	}
	return messages, nil
}

// elements returns the elements of a valid JSON array.
func elements(b []byte) [][]byte {
	var all [][]byte
	for i := skipSpace(b, 1); b[i] != ']'; i = skipSpace(b, i) {
		if b[i] == ',' {
			i = skipSpace(b, i+1)
		}
		end := elementEnd(b, i)
		all = append(all, b[i:end:end])
		i = end
	}
	return all
}

// elementEnd returns the index after the value that starts at b[i], in valid JSON.
func elementEnd(b []byte, i int) int {
	open := 0
	for ; i < len(b); i++ {
		switch b[i] {
		case '{', '[':
			open++
		case '}', ']':
			if open == 0 {
				return i // of the array around a number or a word
			}
			if open--; open == 0 {
				return i + 1
			}
		case '"':
			if i = stringEnd(b, i); open == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\n', '\r':
			if open == 0 {
				return i
			}
		}
	}
	return i
}
