// Package output shows what a command found: to people as tables and colours, to
// programs as JSON.
package output

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Printer prints the result of a command.
type Printer struct {
	Out  io.Writer
	JSON bool // as JSON, not as text
}

// Print prints v, which is JSON, or the text that text writes: lines with tabs
// between their cells.
func (p Printer) Print(v json.RawMessage, text func(io.Writer)) error {
	if p.JSON {
		return WriteJSON(p.Out, v)
	}
	var lines strings.Builder
	table := tabwriter.NewWriter(&lines, 0, 0, 2, ' ', 0)
	text(table)
	_ = table.Flush() // to memory
	_, err := io.WriteString(p.Out, lines.String())
	return err
}

// Value prints v as JSON, or the text that text writes.
func (p Printer) Value(v any, text func(io.Writer)) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return p.Print(raw, text)
}

// Line prints v as JSON, or line.
func (p Printer) Line(v map[string]any, line string) error {
	return p.Value(v, func(w io.Writer) { fmt.Fprintln(w, line) })
}

// Fields writes one line for each of the columns of a JSON object. A column that is
// not there has the value "-".
func Fields(w io.Writer, raw json.RawMessage, columns ...string) {
	var record map[string]any
	_ = json.Unmarshal(raw, &record) // other JSON has no columns
	for _, c := range columns {
		fmt.Fprintf(w, "%s\t%s\n", c, cell(record, c))
	}
}

// Records prints a JSON array of records, as text a table of the columns.
func (p Printer) Records(records []map[string]any, columns ...string) error {
	return p.Value(records, func(w io.Writer) {
		fmt.Fprintln(w, strings.ToUpper(strings.Join(columns, "\t")))
		for _, r := range records {
			cells := make([]string, len(columns))
			for i, c := range columns {
				cells[i] = cell(r, c)
			}
			fmt.Fprintln(w, strings.Join(cells, "\t"))
		}
	})
}

// cell returns a field of a record as text; "agent.email" is a field of the
// record in the field agent.
func cell(record map[string]any, name string) string { return Plain(cellText(record, name)) }

func cellText(record map[string]any, name string) string {
	outer, inner, nested := strings.Cut(name, ".")
	switch v := record[outer].(type) {
	case nil:
		return "-"
	case map[string]any:
		if nested {
			return cellText(v, inner)
		}
	case []any:
		var words []string
		for _, one := range v {
			words = append(words, fmt.Sprint(one))
		}
		if len(words) == 0 {
			return "any"
		}
		return strings.Join(words, ",")
	case string:
		if v == "" {
			return "-"
		}
		return v
	case float64: // fmt would write sizes in bytes with an exponent
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(record[outer])
}
