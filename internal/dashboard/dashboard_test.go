package dashboard_test

import (
	"io/fs"
	"os"
	"testing"
)

// TestDashboard shares one browser among its parts.
func TestDashboard(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	t.Run("empty", b.testEmpty)
	t.Run("topics", b.testTopics)
	t.Run("topic", b.testTopic)
	t.Run("jobs", b.testJobs)
	t.Run("history", b.testJobHistory)
	t.Run("keys", b.testKeys)
	t.Run("dialogs", b.testDialogs)
	t.Run("job actions", b.testJobActions)
	t.Run("topic actions", b.testTopicActions)
	t.Run("dead letters", b.testDead)
	t.Run("token", b.testToken)
	t.Run("read-only", b.testReadOnly)
	t.Run("markup", b.testMarkup)
	t.Run("long names", b.testLongNames)
	t.Run("screens", b.testScreens)
	t.Run("10,000 topics", b.testManyTopics)
	t.Run("stream lost", b.testStreamLost)
	t.Run("store lost", b.testStoreLost)
}

// TestSize: all files of the page are under 300 kB.
func TestSize(t *testing.T) {
	t.Parallel()
	const most = 300_000
	var size int64
	err := fs.WalkDir(os.DirFS("../../bridge/dashboard"), ".", func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	if err != nil || size == 0 || size >= most {
		t.Errorf("the page has %d bytes (%v), allowed are %d", size, err, most)
	}
}
