package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dqbridge/dqbridge/bench/load"
	"github.com/dqbridge/dqbridge/bench/peers"
)

// options are those of the command line.
type options struct {
	binary, binary2, nats string
	env, env2, from       list
	again, explain        bool
	peerNames, workNames  string
	workers, bridges      string
	rounds                int
	dir, json, svg        string
	sizes                 load.Sizes
}

// list is a flag that may be given several times.
type list []string

func (l *list) String() string { return strings.Join(*l, " ") }

func (l *list) Set(value string) error {
	*l = append(*l, value)
	return nil
}

func parse(args []string) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("compare", flag.ContinueOnError)
	f.StringVar(&o.binary, "binary", "bin/dqbridge", "the dqbridge that is measured")
	f.StringVar(&o.binary2, "binary2", "", "another build of dqbridge, measured beside it as dqbridge-2")
	f.BoolVar(&o.again, "aa", false, "measure dqbridge against itself too: the same binary as dqbridge-2 shows how noisy the machine is")
	f.Var(&o.env, "env", "`NAME=value` for dqbridge, and dqbridge-2 without -env2; may be repeated")
	f.Var(&o.env2, "env2", "`NAME=value` for dqbridge-2 alone, instead of -env; may be repeated")
	f.StringVar(&o.nats, "nats-server", "bin/nats-server", "the NATS server of dqbridge and JetStream")
	f.StringVar(&o.peerNames, "peers", "dqbridge,JetStream,asynq,beanstalkd", "who is measured")
	f.StringVar(&o.workNames, "work", "", "which workloads, comma separated; empty: all")
	f.StringVar(&o.workers, "workers", "", "numbers of workers to try in drain and steady; empty: those that each peer names")
	f.StringVar(&o.bridges, "bridges", "1", "numbers of bridges on one Redis to measure, comma separated: more than one as dqbridge-x2, and so on")
	f.IntVar(&o.rounds, "rounds", 3, "how often each is measured, in turn")
	f.IntVar(&o.sizes.Jobs, "jobs", 50_000, "jobs of push, batches and drain")
	f.IntVar(&o.sizes.Size, "size", 100, "bytes of a body")
	f.IntVar(&o.sizes.Seconds, "seconds", 10, "how long steady is measured, and lateness pushes")
	f.IntVar(&o.sizes.Outstanding, "outstanding", 50_000, "jobs that steady has under way at most")
	f.IntVar(&o.sizes.Memory, "memory", 200_000, "pending jobs when memory is measured")
	f.IntVar(&o.sizes.Pending, "pending", 0, "other jobs that are pending throughout: servers are then started once and not flushed")
	f.StringVar(&o.dir, "dir", os.TempDir(), "where the servers keep what they store")
	f.StringVar(&o.json, "json", "", "write all figures to this file")
	f.Var(&o.from, "from", "`file` of an earlier -json: print the tables and pictures of its figures and measure nothing; may be repeated")
	f.StringVar(&o.svg, "svg", "", "write the pictures throughput.svg and lateness.svg to this folder")
	f.BoolVar(&o.explain, "explain", false, "print what each peer runs with, and why, and measure nothing")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	if o.rounds < 1 || o.sizes.Jobs < 1 || o.sizes.Seconds < 1 || o.sizes.Size < 50 {
		return nil, errors.New("rounds, jobs and seconds must be 1 or more, size 50 or more: a body carries its number")
	}
	return o, nil
}

// works are those asked for.
func (o *options) works() ([]load.Work, error) {
	all := load.Works()
	if o.workNames == "" {
		return all, nil
	}
	var asked []load.Work
	for name := range strings.SplitSeq(o.workNames, ",") {
		i := slices.IndexFunc(all, func(w load.Work) bool { return w.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("unknown work %q", name)
		}
		asked = append(asked, all[i])
	}
	return asked, nil
}

// peers are those asked for, dqbridge's second build after its first.
func (o *options) peers() ([]peers.Peer, error) {
	binary, err := filepath.Abs(o.binary)
	if err != nil {
		return nil, err
	}
	nats, err := filepath.Abs(o.nats)
	if err != nil {
		return nil, err
	}
	var asked []peers.Peer
	for name := range strings.SplitSeq(o.peerNames, ",") {
		switch strings.ToLower(name) {
		case "dqbridge":
			bridges, err := o.dqbridges(binary, nats)
			if err != nil {
				return nil, err
			}
			asked = append(asked, bridges...)
			second, err := o.second(binary, nats)
			if err != nil {
				return nil, err
			}
			if second != nil {
				asked = append(asked, second)
			}
		case "jetstream":
			asked = append(asked, peers.NewJetStream(nats))
		case "asynq":
			asked = append(asked, peers.NewAsynq())
		case "beanstalkd":
			asked = append(asked, peers.NewBeanstalkd())
		default:
			return nil, fmt.Errorf("unknown peer %q", name)
		}
	}
	return asked, nil
}

// dqbridges are as many bridges as asked for.
func (o *options) dqbridges(binary, nats string) ([]peers.Peer, error) {
	numbers, err := counts("bridges", o.bridges)
	if err != nil {
		return nil, err
	}
	var all []peers.Peer
	for _, n := range numbers {
		name := "dqbridge"
		if n > 1 {
			name += "-x" + strconv.Itoa(n)
		}
		all = append(all, peers.NewDQBridge(name, binary, nats, o.env, n))
	}
	return all, nil
}

// second is dqbridge-2, nil where none is asked for.
func (o *options) second(binary, nats string) (peers.Peer, error) {
	if o.binary2 != "" {
		var err error
		if binary, err = filepath.Abs(o.binary2); err != nil {
			return nil, err
		}
	} else if !o.again && len(o.env2) == 0 {
		return nil, nil //nolint:nilnil // as its comment says
	}
	env := o.env
	if len(o.env2) > 0 {
		env = o.env2
	}
	return peers.NewDQBridge("dqbridge-2", binary, nats, env, 1), nil
}

// variants are the numbers of workers to try.
func (o *options) variants(w load.Work, p peers.Peer) ([]int, error) {
	if !w.Workers {
		return []int{1}, nil
	}
	if o.workers == "" {
		return p.Variants(), nil
	}
	return counts("workers", o.workers)
}

// counts reads numbers from 1 on, comma separated, of a flag.
func counts(name, value string) ([]int, error) {
	var numbers []int
	for text := range strings.SplitSeq(value, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%s: %q is not a number from 1 on", name, text)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}
