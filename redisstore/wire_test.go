package redisstore

import (
	"reflect"
	"testing"
)

const clusterNodes = `67f8 127.0.0.1:1@10001 master - 0 1795232444246 2 connected 5461-10921
f541 127.0.0.1:2@10002 myself,slave 74c3 0 1795232443000 1 connected
74c3 127.0.0.1:3@10003 master - 0 1795232443000 1 connected 0-5460
`

func TestOwnedBy(t *testing.T) {
	for text, want := range map[string][]owner{
		"":           nil,
		clusterNodes: nil, // a replica
		"1 h:1@2 myself,master - 0 0 1 connected\n":                                              nil,
		"1 h:1@2 myself,master - 0 0 1 connected 5 7-99 [93->-292] [77-<-e7d1] 101":              {{5, 5, "a"}, {7, 99, "a"}, {101, 101, "a"}},
		"2 h:3@4 master - 0 0 1 connected 0-3\n1 h:1@2,host myself,master - 0 0 1 connected 4-5": {{4, 5, "a"}},
	} {
		if got := ownedBy("a", text); !reflect.DeepEqual(got, want) {
			t.Errorf("ownedBy(%q) = %v, want %v", text, got, want)
		}
	}
}

func TestPlace(t *testing.T) {
	w := &shardedWire{owners: []owner{{0, 9, "a"}, {10, 10, "b"}, {20, 29, "a"}}}
	for slot, want := range map[uint16]string{0: "a", 9: "a", 10: "b", 11: "", 19: "", 20: "a", 29: "a", 30: "", 16383: ""} {
		if got := w.node(slot); got != want {
			t.Errorf("slot %d is at %q, want %q", slot, got, want)
		}
	}
	if got := new(shardedWire).node(0); got != "" {
		t.Errorf("a slot that nobody knows of is at %q", got)
	}
}

func TestAtLeast(t *testing.T) {
	for version, want := range map[string]bool{
		"6.2.0": true, "6.2": true, "6.10.1": true, "7.0.15": true, "10.0": true, "8.0.0-rc1": true,
		"6.1.99": false, "6.0": false, "5.9": false, "6": false, "": false, "unstable": false, "255.255.255": true,
	} {
		if got := atLeast(version, 6, 2); got != want {
			t.Errorf("atLeast(%q, 6, 2) = %t", version, got)
		}
	}
}
