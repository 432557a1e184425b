package rollout

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"partneredge/store/durable"
)

// trialTime is the length of a trial, during which a candidate answers requests. The
// end of the node within it counts as the candidate's fault.
const trialTime = time.Minute

// trial is the content of DATA/candidate.json, which is there while a candidate is
// on trial: from before its modules are opened until it has answered requests for
// trialTime, is withdrawn, or the node is told to stop. A node that finds it when it
// starts has died meanwhile.
type trial struct {
	Digest  string `json:"digest"`
	Rollout string `json:"rollout"`
}

// trials keeps the mark of the candidate on trial. It is for one goroutine at a
// time: while a candidate is opened, none answers requests.
type trials struct {
	disk durable.Disk
	file string
	died trial // the node died of it before it was started; empty: of none
	on   bool  // file is of a candidate that this process tries
}

// openTrials reads the mark that an earlier process has left. One that cannot be
// read is none.
func openTrials(disk durable.Disk, file string, log *slog.Logger) trials {
	t := trials{disk: disk, file: file}
	switch err := durable.ReadJSON(file, &t.died); {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		log.Error("damaged file ignored", "file", file, "err", err)
		t.died = trial{}
	default:
		log.Warn("the node ended while it tried a release", "digest", t.died.Digest, "rollout", t.died.Rollout)
	}
	return t
}

// errDied refuses a candidate.
var errDied = errors.New("the node ended without being stopped while it tried this release")

// begin marks a candidate as on trial. It refuses one that the node died of in the
// same rollout; another rollout of it is an operator's decision to try again.
func (t *trials) begin(digest, rollout string) error {
	next := trial{digest, rollout}
	if t.died == next {
		return errDied
	}
	text, err := json.Marshal(next)
	if err == nil {
		t.on = true
		err = t.disk.WriteFile(t.file, append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("mark a release as on trial: %w", err)
	}
	return nil
}

// end removes the mark of the candidate that this process tries, if there is one.
func (t *trials) end() error {
	if !t.on {
		return nil
	}
	t.on = false
	if err := t.disk.Remove(t.file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the mark of a trial: %w", err)
	}
	return t.disk.SyncDir(filepath.Dir(t.file)) // else it may be back after a power cut
}
