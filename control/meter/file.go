package meter

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"muniment.example/control/route"
	"muniment.example/pipeline"
)

// The formats of the response.
const (
	formatJSON   = "json"
	formatCSV    = "csv"
	formatNDJSON = "ndjson"
)

const (
	typeCSV    = "text/csv"
	typeNDJSON = "application/x-ndjson"
)

// headerAsOf is the header of a file that corresponds to asOf of a page. It is absent while nothing
// is loaded.
const headerAsOf = route.HeaderAsOf

// rowsAPage is how many rows of a file one query reads. The warehouse computes the sums again for
// each page.
const rowsAPage = 10_000

// file is the response with all rows. Its first page is read before the response begins, so a
// failure to read it is an ordinary error response. bom begins it with a byte order mark.
func (l *lines) file(format string, bom bool) *route.File {
	f := &route.File{Name: "metering." + format, Type: typeCSV, Size: route.UnknownSize, Header: map[string]string{}}
	if format == formatNDJSON {
		f.Type = typeNDJSON
	}
	if l.asOf != nil {
		f.Name, f.Header[headerAsOf] = "metering-"+l.asOf.String()+"."+format, l.asOf.String()
	}
	f.Open = func(ctx context.Context) (func(io.Writer), error) {
		_, some, err := l.cut(ctx)
		var rows []pipeline.MeterRow
		if err == nil && some {
			rows, err = l.next(ctx)
		}
		return func(to io.Writer) {
			var err error
			if bom {
				_, err = io.WriteString(to, route.ByteOrderMark)
			}
			if err == nil {
				err = l.write(ctx, to, format, rows)
			}
			if err != nil {
				l.service.logger.InfoContext(ctx, "a metering file was not sent completely", "tenantId", l.q.TenantID, "err", err)
				panic(http.ErrAbortHandler)
			}
		}, err
	}
	return f
}

// next reads the next page.
func (l *lines) next(ctx context.Context) ([]pipeline.MeterRow, error) {
	l.q.Limit = rowsAPage
	rows, err := l.service.sums.Metering(ctx, l.q)
	l.q.Skip += len(rows)
	return rows, err
}

// write writes rows, which are the first page, and then the following pages.
func (l *lines) write(ctx context.Context, to io.Writer, format string, rows []pipeline.MeterRow) error {
	buffer := bufio.NewWriterSize(to, 1<<16)
	var put func(MeteringRow) error
	end := func() error { return nil }
	if format == formatCSV {
		put, end = l.csv(buffer)
	} else {
		text := json.NewEncoder(buffer)
		text.SetEscapeHTML(false)
		put = func(line MeteringRow) error { return text.Encode(line) }
	}
	for len(rows) > 0 {
		err := l.each(ctx, rows, func(_, _ int, line MeteringRow) (bool, error) { return true, put(line) })
		if err != nil {
			return err
		}
		if len(rows) < rowsAPage {
			break
		}
		if rows, err = l.next(ctx); err != nil {
			return err
		}
	}
	if err := end(); err != nil {
		return err
	}
	return buffer.Flush()
}

// csv begins a file of RFC 4180 with a header line. Null is an empty cell.
func (l *lines) csv(to io.Writer) (put func(MeteringRow) error, end func() error) {
	cells := []string{"rightId", "substrate", "basisId", "meteringBasis", "reason"}
	if l.calendar.Unit != "" {
		cells = append([]string{"bucket"}, cells...)
	}
	for _, also := range []struct {
		query bool
		name  string
	}{{l.by.Anchor, "spatialAnchorId"}, {l.by.Placement, "spatialPlacementId"}, {l.by.campaign, "campaignId"}} {
		if also.query {
			cells = append(cells, also.name)
		}
	}
	w := csv.NewWriter(to)
	_ = w.Write(append(cells, "receipts", "quantityMs", "impressions")) // w keeps the error
	return func(line MeteringRow) error {
			cells = cells[:0]
			if line.Bucket != nil {
				cells = append(cells, *line.Bucket)
			}
			cells = append(cells, route.Inert(line.RightID), route.Inert(line.Substrate), route.Inert(line.BasisID), line.MeteringBasis, line.Reason)
			if line.SpatialAnchorID != nil {
				cells = append(cells, route.Inert(*line.SpatialAnchorID))
			}
			for _, also := range []**string{line.SpatialPlacementID, line.CampaignID} {
				switch {
				case also == nil:
				case *also == nil:
					cells = append(cells, "")
				default:
					cells = append(cells, route.Inert(**also))
				}
			}
			cells = append(cells, strconv.FormatInt(line.Receipts, 10), strconv.FormatInt(line.QuantityMs, 10), line.Impressions)
			return w.Write(cells)
		}, func() error {
			w.Flush()
			return w.Error()
		}
}
