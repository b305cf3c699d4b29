package peers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// bsPipe puts jobs on one connection, many in flight. What is put while a write is under way goes into the next one.
type bsPipe struct {
	slots

	conn net.Conn
	puts chan []byte
	// spare are buffers of puts that were written.
	spare chan []byte
	ended sync.WaitGroup
}

func dialBS(ctx context.Context, addr string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect to beanstalkd: %w", err)
	}
	return conn, nil
}

func newBSPipe(ctx context.Context, addr string, most int) (*bsPipe, error) {
	conn, err := dialBS(ctx, addr)
	if err != nil {
		return nil, err
	}
	p := &bsPipe{
		conn: conn, slots: newSlots(most), puts: make(chan []byte, most), spare: make(chan []byte, most),
	}
	p.ended.Go(p.write)
	p.ended.Go(p.read)
	return p, nil
}

func (p *bsPipe) put(ctx context.Context, body []byte, seconds int) error {
	if err := p.take(ctx); err != nil {
		return err
	}
	var command []byte
	select {
	case command = <-p.spare:
	default:
	}
	command = fmt.Appendf(command[:0], "put 1024 %d 60 %d\r\n", seconds, len(body))
	command = append(append(command, body...), "\r\n"...)
	p.puts <- command // there is room for as many as there are slots
	return nil
}

func (p *bsPipe) write() {
	w := bufio.NewWriterSize(p.conn, 32<<10)
	for command := range p.puts {
		_, err := w.Write(command)
		if err == nil && len(p.puts) == 0 {
			err = w.Flush()
		}
		if err != nil {
			p.fail(err)
			return
		}
		select {
		case p.spare <- command:
		default: // one more was made while none was spare
		}
	}
}

func (p *bsPipe) read() {
	lines := bufio.NewScanner(p.conn)
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), "INSERTED ") {
			p.fail(fmt.Errorf("put: %s", lines.Text()))
		}
		p.free()
	}
	if err := lines.Err(); !errors.Is(err, net.ErrClosed) {
		p.fail(errors.Join(errors.New("beanstalkd has gone"), err))
	}
}

func (p *bsPipe) close() {
	close(p.puts)
	_ = p.conn.Close() // all is confirmed, or nobody waits for it
	p.ended.Wait()
}

// bsWorker reserves and deletes on one connection.
type bsWorker struct {
	conn    net.Conn
	r       *bufio.Reader
	w       *bufio.Writer
	take    func([]byte)
	stopped atomic.Bool
	body    []byte
	done    []string // ids that were taken and are not deleted yet
}

func newBSWorker(ctx context.Context, addr string, take func([]byte)) (*bsWorker, error) {
	conn, err := dialBS(ctx, addr)
	if err != nil {
		return nil, err
	}
	return &bsWorker{conn: conn, r: bufio.NewReaderSize(conn, 64<<10), w: bufio.NewWriterSize(conn, 64<<10), take: take}, nil
}

// end lets run return: its connection breaks.
func (w *bsWorker) end() {
	w.stopped.Store(true)
	_ = w.conn.Close() // what is reserved is given back by the server
}

// run asks for twice as many jobs each time that all it asked for were there, and for one, waiting, where none was.
func (w *bsWorker) run() {
	most := 1
	for !w.stopped.Load() {
		got, err := w.turn(most)
		if err != nil {
			return // the connection is gone; jobs that do not come show it
		}
		switch got {
		case most:
			most = min(2*most, bsMost)
		case 0:
			most = 1
		}
	}
}

// turn sends the deletes of the last turn and most reserves in one write, and reads all the answers.
func (w *bsWorker) turn(most int) (int, error) {
	for _, id := range w.done {
		_, _ = w.w.WriteString("delete " + id + "\r\n") // Flush says it
	}
	deletes := len(w.done)
	w.done = w.done[:0]
	if most == 1 {
		if deletes > 0 { // a blocking reserve would keep their answers back
			if err := w.deleted(deletes); err != nil {
				return 0, err
			}
			deletes = 0
		}
		_, _ = w.w.WriteString("reserve-with-timeout 1\r\n")
	} else {
		_, _ = w.w.WriteString(strings.Repeat("reserve-with-timeout 0\r\n", most))
	}
	if err := w.deleted(deletes); err != nil {
		return 0, err
	}
	got := 0
	for range most {
		ok, err := w.reserved()
		if err != nil {
			return got, err
		}
		if ok {
			got++
		}
	}
	return got, nil
}

// deleted sends what was written and reads the answers of so many deletes.
func (w *bsWorker) deleted(n int) error {
	if err := w.w.Flush(); err != nil {
		return err
	}
	for range n {
		line, err := w.r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if string(line) != "DELETED\r\n" {
			return fmt.Errorf("delete: %s", line)
		}
	}
	return nil
}

// reserved reads the answer of a reserve: a job, or none.
func (w *bsWorker) reserved() (bool, error) {
	line, err := w.r.ReadSlice('\n')
	if err != nil {
		return false, err
	}
	fields := strings.Fields(string(line))
	if len(fields) != 3 || fields[0] != "RESERVED" {
		if fields[0] == "TIMED_OUT" {
			return false, nil
		}
		return false, fmt.Errorf("reserve: %s", line)
	}
	size, err := strconv.Atoi(fields[2])
	if err != nil {
		return false, err
	}
	w.body = append(w.body[:0], make([]byte, size+2)...)
	if _, err := io.ReadFull(w.r, w.body); err != nil {
		return false, err
	}
	w.take(w.body[:size])
	w.done = append(w.done, fields[1])
	return true, nil
}

// bsStats asks for the server's figures.
func bsStats(ctx context.Context, addr string) (string, error) {
	conn, err := dialBS(ctx, addr)
	if err != nil {
		return "", err
	}
	defer conn.Close() //nolint:errcheck // nothing is out on it
	if _, err = io.WriteString(conn, "stats\r\n"); err != nil {
		return "", err
	}
	r := bufio.NewReader(conn)
	var size int
	if _, err = fmt.Fscanf(r, "OK %d\r\n", &size); err != nil {
		return "", fmt.Errorf("read stats: %w", err)
	}
	data := make([]byte, size)
	_, err = io.ReadFull(r, data)
	return string(data), err
}
