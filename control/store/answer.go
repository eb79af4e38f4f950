package store

import "muniment/gateway/api"

// Answer is what an operation answers with.
type Answer[T any] struct{ Body api.Body[T] }

// Tell answers with data, unless there is an error.
func Tell[T any](data T, err error) (*Answer[T], error) {
	if err != nil {
		return nil, err
	}
	return &Answer[T]{api.OK(data)}, nil
}
