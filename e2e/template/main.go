// Records what Go's text/template and Sprig make of templates. It reads cases as JSON lines from standard input and writes
// each with its output or its error to standard output. The first line has the data of cases that have none of their own.
// crates/template/testdata has the recorded cases; a file of them is an input, too:
//
//	TZ=UTC go run . < sprig.jsonl
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"sigs.k8s.io/yaml"
)

// A case: a template with its data and options, and the result.
type testCase struct {
	Template string          `json:"t"`
	Data     json.RawMessage `json:"d,omitempty"`
	// The functions: "" for Sprig's, "builtin" for those of text/template.
	Functions  string   `json:"f,omitempty"`
	MissingKey string   `json:"m,omitempty"`
	Delims     []string `json:"delims,omitempty"`
	// Whether integers of the data are int64 instead of float64.
	Integers bool `json:"i,omitempty"`

	Output *string `json:"o,omitempty"`
	Error  string  `json:"e,omitempty"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	lines.Scan()
	fmt.Println(lines.Text())
	shared := bytes.Clone(lines.Bytes())
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for lines.Scan() {
		var test testCase
		if err := json.Unmarshal(lines.Bytes(), &test); err != nil {
			fmt.Fprintln(os.Stderr, err, lines.Text())
			os.Exit(1)
		}
		test.Output, test.Error = nil, ""
		text, err := render(test, shared)
		if err != nil {
			test.Error = err.Error()
		} else {
			test.Output = &text
		}
		if err := out.Encode(test); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func render(test testCase, shared json.RawMessage) (string, error) {
	tmpl := template.New("x")
	if test.Functions != "builtin" {
		tmpl = tmpl.Funcs(functions())
	}
	if test.MissingKey != "" {
		tmpl = tmpl.Option("missingkey=" + test.MissingKey)
	}
	if len(test.Delims) == 2 {
		tmpl = tmpl.Delims(test.Delims[0], test.Delims[1])
	}
	if _, err := tmpl.Parse(test.Template); err != nil {
		return "", err
	}
	var out bytes.Buffer
	if len(test.Data) > 0 {
		shared = test.Data
	}
	err := tmpl.Execute(&out, data(shared, test.Integers))
	return out.String(), err
}

// Sprig's functions without those that read the environment, and Helm's for YAML.
func functions() template.FuncMap {
	functions := sprig.TxtFuncMap()
	delete(functions, "env")
	delete(functions, "expandenv")
	functions["toYaml"] = func(value any) string {
		text, err := yaml.Marshal(value)
		if err != nil {
			return ""
		}
		return strings.TrimSuffix(string(text), "\n")
	}
	functions["fromYaml"] = func(text string) map[string]any {
		value := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			value["Error"] = err.Error()
		}
		return value
	}
	functions["fromYamlArray"] = func(text string) []any {
		value := []any{}
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			value = []any{err.Error()}
		}
		return value
	}
	return functions
}

func data(text json.RawMessage, integers bool) any {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if integers {
		decoder.UseNumber()
	}
	var value any
	if err := decoder.Decode(&value); err != nil {
		panic(err)
	}
	return numbers(value)
}

// Replaces json.Number by int64 or float64.
func numbers(value any) any {
	switch value := value.(type) {
	case json.Number:
		if number, err := value.Int64(); err == nil {
			return number
		}
		number, _ := value.Float64()
		return number
	case []any:
		for i := range value {
			value[i] = numbers(value[i])
		}
	case map[string]any:
		for key := range value {
			value[key] = numbers(value[key])
		}
	}
	return value
}
