package main

import (
	"testing"
	"time"
)

// TestGuessesThatProveNothing holds that the bench fails when the attack was not the
// intended one, and only then.
func TestGuessesThatProveNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		guesses
		mute, fails bool
	}{
		"all are refused as unknown":                                {guesses: guesses{Sent: 1000, Statuses: map[int]int{401: 1000}}},
		"most are refused for want of room":                         {guesses: guesses{Sent: 1000, Statuses: map[int]int{401: 1, 500: 600}}},
		"none is refused as unknown":                                {guesses: guesses{Sent: 1000, Statuses: map[int]int{500: 1000}}, fails: true},
		"none is refused as unknown by a node whose origin is mute": {guesses: guesses{Sent: 1000, Statuses: map[int]int{500: 1000}}, mute: true},
		"most get no answer":                                        {guesses: guesses{Sent: 1000, Failed: 600, Statuses: map[int]int{401: 400}}, fails: true},
		"most get no answer, origin mute":                           {guesses: guesses{Sent: 1000, Failed: 600, Statuses: map[int]int{500: 400}}, mute: true, fails: true},
		"most get another answer":                                   {guesses: guesses{Sent: 1000, Statuses: map[int]int{401: 400, 429: 600}}, fails: true},
		"few are sent":                                              {guesses: guesses{Sent: 499, Statuses: map[int]int{401: 499}}, fails: true},
		"half of them are sent":                                     {guesses: guesses{Sent: 501, Statuses: map[int]int{401: 501}}},
		"none is sent":                                              {fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			tt.Took = time.Second
			if err := tt.check(tt.mute); (err != nil) != tt.fails {
				t.Errorf("%v, want an error: %v", err, tt.fails)
			}
		})
	}
}
