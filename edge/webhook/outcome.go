package webhook

import (
	"context"
	"errors"
	"time"

	"partneredge/edge/backoff"
	"partneredge/store"
	"partneredge/store/central/deliveries"
)

// outcome waits to be written.
type outcome struct {
	deliveries.Outcome
	queue *queue
	size  int // bytes held for it
}

const (
	writeMost  = 1000                 // outcomes in one transaction
	writeSoon  = 200                  // this many do not wait for more
	writeDelay = 2 * time.Millisecond // how long fewer wait
)

// writeLoop writes outcomes in batches. It ends when stop is closed and all are
// written, or ctx ends.
func (s *Sender) writeLoop(ctx context.Context, stop <-chan struct{}) {
	pause := newBackoff()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.writeNow:
			if s.unwritten() < writeSoon {
				_ = backoff.Pause(ctx, writeDelay)
			}
		case <-stop:
			if s.unwritten() == 0 {
				return
			}
		}
		left := s.nextBatch()
		for len(left) > 0 && ctx.Err() == nil {
			var err error
			left, err = s.write(ctx, left)
			pause.Wait(ctx, err)
			if err != nil {
				s.c.Log.Error("cannot write webhook outcomes", "err", err, "outcomes", len(left))
			}
		}
	}
}

func (s *Sender) unwritten() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.outcomes)
}

func (s *Sender) nextBatch() []outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.outcomes), writeMost)
	batch := s.outcomes[:n:n]
	s.outcomes = s.outcomes[n:]
	if len(s.outcomes) == 0 {
		s.outcomes = nil
	} else {
		s.writeNow.Send()
	}
	return batch
}

// write writes a batch and forgets its deliveries; with an error it returns those at the end
// of the batch that are left. An outcome that the database calls invalid is found by halves
// and left out, so that it holds up no other; the delivery's lease ends and it is tried again.
func (s *Sender) write(ctx context.Context, batch []outcome) (left []outcome, err error) {
	outcomes := make([]deliveries.Outcome, len(batch))
	for i := range batch {
		outcomes[i] = batch[i].Outcome
	}
	err = s.c.Store.RecordOutcomes(ctx, outcomes)
	switch {
	case err == nil:
	case !errors.Is(err, store.ErrInvalid):
		return batch, err
	case len(batch) > 1:
		half := len(batch) / 2
		if left, err := s.write(ctx, batch[:half]); err != nil {
			return batch[half-len(left):], err
		}
		return s.write(ctx, batch[half:])
	default:
		s.c.Log.Error("webhook outcome cannot be kept", "err", err, "delivery", batch[0].Attempt.DeliveryID)
	}
	s.forget(batch)
	return nil, nil
}

// forget drops deliveries whose outcomes are written.
func (s *Sender) forget(batch []outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for i := range batch {
		if s.claiming { // which may have read the delivery before
			s.written = append(s.written, batch[i].Attempt.DeliveryID)
		} else {
			delete(s.held, batch[i].Attempt.DeliveryID)
		}
		q := batch[i].queue
		s.keep(q, -1, -batch[i].size)
		s.offer(q, now)
	}
	s.schedule(now)
	if s.refills.len() > 0 {
		s.claimNow.Send()
	}
}
