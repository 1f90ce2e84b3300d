package main

import "github.com/lockagent/lockagent/cmd/lockagent/internal/manual"

// recipes say how to do what people want of locks in a shell. A test runs each of them.
var recipes = []manual.Part{
	{
		Title: "Run a job on one host at a time",
		Text: `Every host starts the job at the same time, for example by cron. With -n those that come too late do nothing.
With -E 0 they report no failure, and say nothing: cron sends no mail.`,
		Code: `lockagent lock -n -E 0 jobs/backup -- ./backup.sh --all`,
	},
	{
		Title: "Run a job once in a period",
		Text: `A short job would run on one host after the other, as the clock of each says that it is time. With --at-least
the lock is held for that long, also if the command has ended before. The time must be longer than the clocks of the
hosts and the starts of the job differ, and shorter than the period.`,
		Code: `lockagent lock -n -E 0 --at-least 10m jobs/report -- ./report.sh`,
	},
	{
		Title: "Wait, but not for ever",
		Text: `The exit code is that of the command, or 1 if the lock was not to be had. -E chooses another one, to tell
them apart. Codes from 64 to 79 are those of lockagent itself.`,
		Code: `lockagent lock -w 30s -E 100 deploy ./deploy.sh
case $? in
0) echo "deployed" ;;
100) echo "somebody else deploys" ;;
*) echo "the deployment failed" ;;
esac`,
	},
	{
		Title: "Let a script run once at a time",
		Text: `The script starts itself anew under the lock, unless it has the lock. So the lock ends with the script,
however that ends. A variable may be left from another time, so the script asks whether its token still counts. The
first two lines of once.sh are what a script begins with.`,
		Code: `cat >once.sh <<'END'
#!/bin/sh
lockagent check scripts/once "$LOCKAGENT_TOKEN" 2>/dev/null || exec lockagent lock -n scripts/once -- "$0" "$@"
echo "nobody else runs this: $1, under $LOCKAGENT_LOCK with $LOCKAGENT_TOKEN"
END
chmod +x once.sh
./once.sh now`,
	},
	{
		Title: "Readers beside each other, and a writer alone",
		Text:  `With -s a program shares the lock with others that say -s. Without it, or with -x, it holds the lock alone.`,
		Code: `lockagent lock -s cache ./read.sh
lockagent lock -x cache ./write.sh`,
	},
	{
		Title: "Share a lock with a program in Go or Java",
		Text: `The lock of lockagent lock is a read/write lock: ReadLock and WriteLock in Go, RReadWriteLock in Java. If the
program uses plain locks, which are Lock in Go and RLock in Java, all scripts say --plain, and --fair if these are fair.
A script that takes a lock as another kind than its holder is told so, and does not run.`,
		Code: `lockagent lock --plain invoices ./build.sh`,
	},
	{
		Title: "At most three at a time",
		Text:  `Each program that takes the lock says the same number. lockagent slots changes it.`,
		Code:  `lockagent lock --slots 3 builds ./build.sh`,
	},
	{
		Title: "In the order of arrival",
		Text:  `With --fair no waiter overtakes another one, on no host. Each program that takes the lock uses it.`,
		Code:  `lockagent lock --fair printer ./print.sh`,
	},
	{
		Title: "Several locks at once",
		Text: `All of them are taken, or none. No two programs wait for each other: each takes the locks in the order of
their names.`,
		Code: `lockagent lock --also accounts/7 accounts/4 ./transfer.sh`,
	},
	{
		Title: "Several steps of a script under one lock",
		Text: `The claim is a word that knows the lock. The verbs find it in the variable: all users of the host can read
arguments. With --for-pid the lock also ends with the script.`,
		Code: `LOCKAGENT_CLAIM=$(lockagent acquire --for-pid $$ orders/42) || exit
export LOCKAGENT_CLAIM
./read.sh
./write.sh
lockagent release`,
	},
	{
		Title: "A lock that goes from one program to the next",
		Text: `No program has to run meanwhile. The lock lasts until its time has passed, and renew puts that off. attach
runs a command under the lock, and then releases it.`,
		Code: `lockagent acquire --ttl 1h orders/42 >claim
lockagent renew --ttl 2h - <claim
lockagent attach - ./write.sh <claim`,
	},
	{
		Title: "Keep out a holder that was too slow",
		Text: `A holder that was stopped for a while may act after its lock is over. So the resource must compare tokens: it
refuses a token that is lower than one it has seen. A resource that cannot compare asks whether the token still
counts.`,
		Code: `cat >store.sh <<'END'
#!/bin/sh
# store.sh LOCK TOKEN: stores what it reads
lockagent check "$1" "$2" && cat >stored
END
chmod +x store.sh
lockagent lock report -c 'echo done | ./store.sh "$LOCKAGENT_LOCK" "$LOCKAGENT_TOKEN"'
cat stored`,
	},
	{
		Title: "Run something when the lock is lost",
		Text: `The command gets SIGTERM, or the signal of --on-lost, before somebody else can have the lock. --grace is the
time that it then has. The exit code tells of the loss.`,
		Code: `lockagent lock --on-lost INT --grace 1s --lost-exit-code 99 leader ./lead.sh
[ $? != 99 ] || echo "another host leads now"`,
	},
	{
		Title: "See who has a lock, and who waits",
		Text:  `top shows the same in a table that follows what happens, and the live page in a browser.`,
		Code: `lockagent ls
lockagent ls 'stuck/*' --format jsonl | jq -r '.name + ": process \(.holders[].pid)"'
lockagent show stuck/1`,
	},
	{
		Title: "Break a lock whose holder hangs",
		Text: `The holder is told, and may not notice: end it first, or be sure that tokens are checked. With --token the
lock is broken only if that holder still has it.`,
		Code: `token=$(lockagent ls stuck/1 | cut -f 4)
lockagent break stuck/1 --token "$token" --reason "its host is gone" --yes
lockagent lock -n stuck/1 echo "it is free"`,
	},
}

// recipesDocument is also what lockagent help recipes shows.
func recipesDocument() *manual.Document {
	return &manual.Document{
		Name: "lockagent-recipes", Section: 7, Short: "what to do with locks in a shell", Parts: recipes,
	}
}
