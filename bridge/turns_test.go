package bridge

import "testing"

// Topics of which little is ready go before those that have a backlog, and do not keep them from their turn.
func TestShortTopicsGoFirst(t *testing.T) {
	t.Parallel()
	d := newTestDispatcher(1, 1000)
	yes := true
	add := func(name string, backlog bool) {
		topic := d.topic(name)
		topic.listening, topic.backlog = &yes, backlog
		topic.hint(0)
		d.enqueue(topic)
	}
	for _, name := range []string{"long-1", "long-2", "long-3", "long-4"} {
		add(name, true)
	}
	for _, name := range []string{"short-1", "short-2", "short-3"} {
		add(name, false)
	}
	for _, want := range [][]string{{"short-1", "short-2", "long-1", "long-2"}, {"short-3", "long-3", "long-4"}} {
		r, _ := d.plan()
		var got []string
		for _, w := range r.wants[0] {
			got = append(got, w.Topic)
		}
		if len(got) != len(want) {
			t.Fatalf("the round is %v, want %v", got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("the round is %v, want %v", got, want)
			}
		}
	}
}
