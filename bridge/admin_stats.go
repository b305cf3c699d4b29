package bridge

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/dqbridge/dqbridge/delay"
)

type statsReply struct {
	Delayed  int64          `json:"delayed"`
	Ready    int64          `json:"ready"`
	InFlight int64          `json:"inflight"`
	Dead     int64          `json:"dead"`
	Topics   int            `json:"topics"`
	Due      dueReply       `json:"due"`
	Replicas []replicaReply `json:"replicas"`
	Redis    redisReply     `json:"redis"`
}

type dueReply struct {
	Minute      int64 `json:"1m"`
	FiveMinutes int64 `json:"5m"`
	Hour        int64 `json:"1h"`
	Day         int64 `json:"1d"`
	Later       int64 `json:"later"`
}

type replicaReply struct {
	ID        string `json:"id"`
	Host      string `json:"host"`
	Version   string `json:"version"`
	StartedAt string `json:"started_at"`
}

type redisReply struct {
	Version           string `json:"version"`
	UsedMemory        int64  `json:"used_memory"`
	MaxMemory         int64  `json:"maxmemory"`
	MaxMemoryPolicy   string `json:"maxmemory_policy"`
	AOFEnabled        bool   `json:"aof_enabled"`
	ConnectedReplicas int64  `json:"connected_replicas"`
}

func (a *admin) stats(ctx context.Context, data []byte) envelope {
	if f := decodeRequest(data, &struct{}{}); f != nil {
		return f.envelope()
	}
	infos, err := a.queue.Infos(ctx)
	if err != nil {
		return failed("", delay.Unknown, err)
	}
	reply, err := a.readStats(ctx, infos)
	if err == nil {
		reply.Topics, err = a.queue.TopicNumber(ctx)
	}
	if err != nil {
		return failed("", delay.Unknown, err)
	}
	return envelope{Code: http.StatusOK, Data: reply}
}

// readStats reads all but the number of topics, which takes the longest where there are many.
func (a *admin) readStats(ctx context.Context, infos []map[string]string) (statsReply, error) {
	counts, err := a.queue.Counts(ctx)
	if err != nil {
		return statsReply{}, err
	}
	due, err := a.queue.Timeline(ctx)
	if err != nil {
		return statsReply{}, err
	}
	return statsReply{
		Delayed: counts.Delayed, Ready: counts.Ready, InFlight: counts.InFlight, Dead: counts.Dead,
		Due:      dueReply{due.Minute, due.FiveMinutes, due.Hour, due.Day, due.Later},
		Replicas: a.replicas.present(), Redis: redisOf(infos),
	}, nil
}

// redisOf sums what the servers that hold jobs say: memory is that of all, the rest that of the worst.
func redisOf(infos []map[string]string) redisReply {
	reply := redisReply{AOFEnabled: true}
	for i, info := range infos {
		limit, replicas := infoNumber(info, "maxmemory"), infoNumber(info, "connected_slaves")
		reply.UsedMemory += infoNumber(info, "used_memory")
		reply.AOFEnabled = reply.AOFEnabled && infoNumber(info, "aof_enabled") == 1
		if i == 0 {
			reply.Version, reply.MaxMemoryPolicy = info["redis_version"], info["maxmemory_policy"]
			reply.MaxMemory, reply.ConnectedReplicas = limit, replicas
			continue
		}
		reply.ConnectedReplicas = min(reply.ConnectedReplicas, replicas)
		if limit == 0 || reply.MaxMemory == 0 {
			reply.MaxMemory = 0 // of one without a limit there is none
		} else {
			reply.MaxMemory += limit
		}
	}
	return reply
}

// infoNumber reads a field of INFO; one that is not told is 0.
func infoNumber(info map[string]string, field string) int64 {
	n, _ := strconv.ParseInt(info[field], 10, 64)
	return n
}

// present gives the replicas that live.
func (r *replicas) present() []replicaReply {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := []replicaReply{}
	for _, s := range r.slots {
		if s.Alive() {
			about := append(strings.Fields(s.About), "", "", "")
			list = append(list, replicaReply{ID: owner{s.Number, s.Process}.String(), Host: about[0], Version: about[1], StartedAt: about[2]})
		}
	}
	slices.SortFunc(list, func(x, y replicaReply) int { return cmp.Compare(x.ID, y.ID) })
	return list
}
