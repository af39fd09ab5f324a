// Judges histories with Porcupine, for bench/check.py: files in, one JSON line each out.
//
//	porcupine -timeout 60s -repeat 1 FILE...
//
// A file's first line is its model (register or strings) and initial value, separated by a tab;
// every other line is an op: key, f, value, seen, begin, end. Values are text; an end of "-"
// is an unknown outcome. The seconds are those of the check alone, the median of the repeats.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	read = iota
	write
	cas
	not
	add
)

var kinds = map[string]int{
	"read": read, "write": write, "cas": cas, "not": not, "get": read, "put": write, "append": add,
}

type input struct {
	kind       int
	key        int
	value, old int32
	text       string
}

type output struct {
	unknown bool
	seen    int32
	text    string
}

func byKey(history []porcupine.Operation) [][]porcupine.Operation {
	parts := map[int][]porcupine.Operation{}
	for _, op := range history {
		key := op.Input.(input).key
		parts[key] = append(parts[key], op)
	}
	all := make([][]porcupine.Operation, 0, len(parts))
	for _, part := range parts {
		all = append(all, part)
	}
	return all
}

func registers(initial int32) porcupine.Model {
	return porcupine.Model{
		Partition: byKey,
		Init:      func() interface{} { return initial },
		Step: func(state, asked, answered interface{}) (bool, interface{}) {
			now, in, out := state.(int32), asked.(input), answered.(output)
			switch in.kind {
			case read:
				return out.unknown || out.seen == now, now
			case write:
				return true, in.value
			case cas:
				if now == in.old {
					return true, in.value
				}
				return out.unknown, now
			default:
				return now != in.old, now
			}
		},
		Equal: func(a, b interface{}) bool { return a.(int32) == b.(int32) },
		Hash:  func(state interface{}) uint64 { return uint64(uint32(state.(int32))) },
	}
}

func texts(initial string) porcupine.Model {
	return porcupine.Model{
		Partition: byKey,
		Init:      func() interface{} { return initial },
		Step: func(state, asked, answered interface{}) (bool, interface{}) {
			now, in, out := state.(string), asked.(input), answered.(output)
			switch in.kind {
			case read:
				return out.unknown || out.text == now, now
			case write:
				return true, in.text
			default:
				return true, now + in.text
			}
		},
		Equal: func(a, b interface{}) bool { return a.(string) == b.(string) },
	}
}

// numbers gives every text a small number, so that comparing values costs as little as it can.
type numbers map[string]int32

func (n numbers) of(text string) int32 {
	number, ok := n[text]
	if !ok {
		number = int32(len(n))
		n[text] = number
	}
	return number
}

func load(path string) (porcupine.Model, []porcupine.Operation, error) {
	file, err := os.Open(path)
	if err != nil {
		return porcupine.Model{}, nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(make([]byte, 1<<20), 1<<26)
	lines.Scan()
	name, initial, _ := strings.Cut(lines.Text(), "\t")
	values, keys := numbers{}, numbers{}
	model := texts(initial)
	if name == "register" {
		model = registers(values.of(initial))
	}
	var history []porcupine.Operation
	for lines.Scan() {
		c := strings.Split(lines.Text(), "\t")
		kind, known := kinds[c[1]]
		if len(c) != 6 || !known {
			return model, nil, fmt.Errorf("%s: cannot read %q", path, lines.Text())
		}
		begin, err := strconv.ParseInt(c[4], 10, 64)
		if err != nil {
			return model, nil, err
		}
		end := int64(math.MaxInt64)
		if c[5] != "-" {
			if end, err = strconv.ParseInt(c[5], 10, 64); err != nil {
				return model, nil, err
			}
		}
		in := input{kind: kind, key: int(keys.of(c[0]))}
		out := output{unknown: c[5] == "-"}
		if name == "register" {
			in.value, in.old, out.seen = values.of(c[2]), values.of(c[3]), values.of(c[3])
		} else {
			in.text, out.text = c[2], c[3]
		}
		history = append(history, porcupine.Operation{
			ClientId: len(history), Input: in, Call: begin, Output: out, Return: end,
		})
	}
	return model, history, lines.Err()
}

func main() {
	timeout := flag.Duration("timeout", 0, "give up after this; 0 is never")
	repeat := flag.Int("repeat", 1, "checks of each file")
	flag.Parse()
	for _, path := range flag.Args() {
		model, history, err := load(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		var verdict porcupine.CheckResult
		took := make([]float64, *repeat)
		for at := range took {
			began := time.Now()
			verdict = porcupine.CheckOperationsTimeout(model, history, *timeout)
			took[at] = time.Since(began).Seconds()
		}
		sort.Float64s(took)
		var used syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
			panic(err)
		}
		line, err := json.Marshal(map[string]interface{}{
			"verdict": map[porcupine.CheckResult]string{
				porcupine.Ok: "valid", porcupine.Illegal: "invalid", porcupine.Unknown: "unknown",
			}[verdict],
			"seconds": took[len(took)/2],
			"rss_mb":  used.Maxrss / 1024,
		})
		if err != nil {
			panic(err)
		}
		fmt.Println(string(line))
	}
}
