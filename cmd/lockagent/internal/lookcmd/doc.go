// Package lookcmd has the verbs that show the locks of the daemon: ls, show, top and watch. It asks the daemon alone.
package lookcmd
