package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/lockagent/lockagent/bench/commandstats"
	"github.com/lockagent/lockagent/bench/contender"
	"github.com/lockagent/lockagent/internal/redisserver"
)

// server is a Redis server, or a Cluster, of a scenario's own. It has seen nothing before.
type server struct {
	nodes   []*redisserver.Server
	watches []*redisserver.Conn // one for each node
	dir     string
	daemon  *daemon // whose store it is; or nil
}

// startServer starts a lone server.
func startServer() (*server, error) { return startNodes(1, redisserver.Config{}) }

// startCluster starts a Cluster of so many masters.
func startCluster(masters int) (*server, error) {
	s, err := startNodes(masters, redisserver.Config{Lines: redisserver.ClusterLines})
	if err != nil {
		return nil, err
	}
	if err := redisserver.FormCluster(s.nodes); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func startNodes(n int, config redisserver.Config) (s *server, err error) {
	s = new(server)
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	if s.dir, err = os.MkdirTemp("", "bench"); err != nil { // short, for the sockets
		return nil, err
	}
	for i := range n {
		dir := s.file(strconv.Itoa(i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
		node, err := redisserver.Start(dir, config)
		if err != nil {
			return nil, err
		}
		s.nodes = append(s.nodes, node)
		watch, err := node.Dial()
		if err != nil {
			return nil, err
		}
		s.watches = append(s.watches, watch)
	}
	return s, nil
}

func (s *server) stop() {
	if s.daemon != nil {
		s.daemon.end()
	}
	for _, watch := range s.watches {
		watch.Close()
	}
	for _, node := range s.nodes {
		node.Kill()
	}
	_ = os.RemoveAll(s.dir)
}

// Addr is where clients connect first, as host:port.
func (s *server) Addr() string { return s.nodes[0].Addr() }

// AddrFor is where the clients of a kind connect.
func (s *server) AddrFor(kind contender.Kind) string {
	if kind.Name == contender.Daemon.Name {
		return s.daemon.socket()
	}
	return s.Addr()
}

// serve starts a daemon whose store is the server.
func (s *server) serve(ctx context.Context, b *bench) (err error) {
	s.daemon, err = b.startDaemon(ctx, "--redis", "redis://"+s.Addr())
	return err
}

// file is a path for a file that goes with the server.
func (s *server) file(name string) string { return filepath.Join(s.dir, name) }

// stats is what the server has counted, all nodes together.
func (s *server) stats() (commandstats.Stats, error) {
	all := commandstats.Stats{Calls: make(commandstats.Counts), Usec: make(commandstats.Counts)}
	for _, watch := range s.watches {
		info, err := watch.Do("INFO", "commandstats")
		if err != nil {
			return all, err
		}
		text, ok := info.(string)
		if !ok {
			return all, fmt.Errorf("INFO was answered with %v", info)
		}
		all.Add(commandstats.Parse(text))
	}
	return all, nil
}

// counts is how often each command was run, on all nodes together.
func (s *server) counts() (commandstats.Counts, error) {
	stats, err := s.stats()
	return stats.Calls, err
}
