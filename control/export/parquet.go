package export

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"muniment.example/control/analyst"
	"muniment.example/control/table"
)

// roomEvery is after how many rows the free space of the disk is looked at.
const roomEvery = 50_000

// aboutFile says what the folder is.
const aboutFile = "export.json"

// folder is what the folder is called until it is whole.
func (r *run) folder() string { return r.partial() + "-files" }

// finishParquet writes the tables as Parquet, in a folder that gets its name at the end.
func (r *run) finishParquet(ctx context.Context) error {
	folder := r.folder()
	if err := removeLeft(folder); err != nil {
		return err
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	for _, t := range analyst.Tables {
		if err := r.writeParquet(ctx, filepath.Join(folder, t.Name+".parquet"), t); err != nil {
			return errors.Join(fmt.Errorf("cannot write %s: %w", t.Name, err), removeLeft(folder))
		}
	}
	about := map[string]string{}
	for _, name := range []string{"service", "tenant", "asOf", "from", "to"} {
		about[name] = r.work.state[name]
	}
	text, err := json.MarshalIndent(about, "", "  ")
	if err == nil {
		err = writeAbout(filepath.Join(folder, aboutFile), append(text, '\n'))
	}
	if err != nil {
		return err
	}
	if err := r.named(folder); err != nil {
		return err
	}
	err = r.work.close()
	r.work = nil
	return errors.Join(err, r.clear())
}

func writeAbout(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

func (r *run) writeParquet(ctx context.Context, path string, t analyst.Table) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	buffer := bufio.NewWriterSize(f, 1<<18)
	out := table.Parquet.New(buffer, t.Columns, false)
	rows, err := r.work.db.QueryContext(ctx, "SELECT "+strings.Join(storedColumns(t), ", ")+" FROM "+t.Name+" ORDER BY rowid")
	if err != nil {
		return err
	}
	defer rows.Close()
	cells, into := make([]any, len(t.Columns)), make([]any, len(t.Columns))
	for i := range cells {
		into[i] = &cells[i]
	}
	for n := 0; rows.Next(); n++ {
		if n%roomEvery == 0 {
			if err := r.room(); err != nil {
				return err
			}
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for i, c := range t.Columns {
			if cells[i], err = read(c, cells[i]); err != nil {
				return fmt.Errorf("column %s: %w", c.Name, err)
			}
		}
		if err := out.Write(cells); err != nil {
			return err
		}
	}
	return errors.Join(rows.Err(), out.Close(), buffer.Flush(), f.Sync())
}

// read converts a stored cell.
func read(c table.Column, cell any) (any, error) {
	switch v := cell.(type) {
	case int64:
		switch c.Type {
		case table.Boolean:
			return v != 0, nil
		case table.Decimal:
			return decimal(v, c.Scale), nil
		}
		return v, nil
	case string:
		switch c.Type {
		case table.Moment:
			layout := momentLayout
			if len(v) == len(hourLayout) {
				layout = hourLayout
			}
			return time.Parse(layout, v)
		case table.Day:
			return time.Parse(time.DateOnly, v)
		case table.Texts, table.Decimals:
			list := []string{}
			err := json.Unmarshal([]byte(v), &list)
			return list, err
		}
	}
	return cell, nil
}

// decimal is the text of n / 10^scale; n may be negative.
func decimal(n int64, scale int) string {
	text := fmt.Sprintf("%0*d", scale+1, n)
	if n < 0 {
		text = fmt.Sprintf("%0*d", scale+2, n)
	}
	return text[:len(text)-scale] + "." + text[len(text)-scale:]
}
