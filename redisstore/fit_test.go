package redisstore_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/redisstore"
	"github.com/lockagent/lockagent/storetest"
)

// warnings opens a store and returns what is logged.
func warnings(t *testing.T, url string) string {
	t.Helper()
	return warningsOf(t, redisstore.Config{}, url)
}

func warningsOf(t *testing.T, config redisstore.Config, url string) string {
	t.Helper()
	var log bytes.Buffer
	config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	openConfig(t, config, url)
	return log.String()
}

func TestOpenWarnsOfEviction(t *testing.T) {
	for config, warned := range map[string]bool{
		"maxmemory 100mb|maxmemory-policy allkeys-lru":  true,
		"maxmemory 100mb|maxmemory-policy volatile-ttl": true,
		"maxmemory 100mb|maxmemory-policy noeviction":   false,
		"maxmemory 0|maxmemory-policy allkeys-lru":      false,
	} {
		server := redistest.Start(t, redistest.WithConfig(strings.Split(config, "|")...))
		if log := warnings(t, server.URL()); strings.Contains(log, "set maxmemory-policy to noeviction") != warned ||
			strings.Count(log, "\n") > 1 {
			t.Errorf("%s: logged %q", config, log)
		}
	}
}

func TestOpenWarnsOfTwoMasters(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t)
	urls := []string{sentinel.URL(), sentinel.A.URL()} // without a Sentinel somebody else may promote the replica
	for _, url := range urls {
		if log := warnings(t, url); !strings.Contains(log, "set MinReplicas to 1, or on the servers min-replicas-to-write") {
			t.Errorf("%s: logged %q", url, log)
		}
		if log := warningsOf(t, redisstore.Config{MinReplicas: 1}, url); log != "" {
			t.Errorf("%s: logged %q although the store demands a replica", url, log)
		}
	}
	sentinel.A.Do("CONFIG", "SET", "min-replicas-to-write", "1")
	sentinel.A.Do("CONFIG", "SET", "min-replicas-max-lag", "2")
	for _, url := range urls {
		if log := warnings(t, url); log != "" {
			t.Errorf("%s: logged %q although replicas are demanded", url, log)
		}
	}
	for demanded, warned := range map[int]bool{1: false, 2: true} {
		log := warningsOf(t, redisstore.Config{MinReplicas: demanded}, sentinel.URL())
		if strings.Contains(log, "fewer replicas than MinReplicas") != warned {
			t.Errorf("logged %q with MinReplicas %d", log, demanded)
		}
	}
}

// service is a sharded service: several servers that say they are one. It is a node of a
// Cluster that has all slots, and does not say so.
func service(t *testing.T, server *redistest.Server) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			behind, err := net.Dial("tcp", server.Addr())
			if err != nil {
				t.Error(err)
				return
			}
			all.Go(func() { _, _ = io.Copy(behind, client); _ = behind.Close() })
			all.Go(func() { disguise(client, behind); _ = client.Close() })
		}
	})
	return l.Addr().String()
}

func disguise(client io.Writer, behind io.Reader) {
	b := make([]byte, 1<<16)
	for {
		n, err := behind.Read(b)
		if err != nil {
			return
		}
		said := bytes.ReplaceAll(b[:n], []byte("$7\r\ncluster\r\n"), []byte("$10\r\nstandalone\r\n"))
		if _, err := client.Write(said); err != nil {
			return
		}
	}
}

// Services that are several servers behind one address take keys of one slot only. They are
// no Cluster, but are used like one.
func TestAShardedServiceBehindOneAddress(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 1)
	store := open(t, "redis://"+service(t, cluster.Nodes[0]))
	works(t, store)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			req := wish(lockagent.Name(fmt.Sprint("orders/", i)), agentA, 1)
			if reply, err := storetest.Acquire(t, store, req); err != nil || !reply.Granted {
				t.Errorf("Acquire = %+v, %v", reply, err)
			}
		})
	}
	all.Wait()
}
