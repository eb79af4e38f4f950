package store

import "context"

// Section is one kind of a tenant's data, for exports. The members of its rows as JSON are its
// columns.
type Section struct {
	Name string
	// Row is an empty row.
	Row any
	// Each calls take for each of the tenant's rows, which take must not keep.
	Each func(ctx context.Context, q Querier, tenantID string, take func(row any) error) error
}

// Section returns all records of a tenant, oldest first.
func (k *Records[R]) Section(name string) Section {
	return SectionOf(name, k.Scan, k.Select()+" WHERE tenant_id = $1 ORDER BY "+columnsOf(new(R))[0].name)
}

// SectionOf returns the rows that a query finds for the tenant $1.
func SectionOf[R any](name string, scan func(Row) (R, error), query string) Section {
	return Section{name, *new(R), func(ctx context.Context, q Querier, tenantID string, take func(row any) error) error {
		return Each(ctx, q, name+" of "+tenantID, scan, func(r R) error { return take(r) }, query, tenantID)
	}}
}
