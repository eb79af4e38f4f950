package conform

import (
	"testing"

	"muniment.example/pipeline"
)

func TestMemoryLogConforms(t *testing.T) {
	Log(t, func(testing.TB) LogEngine { return memoryLog() })
}

func TestMemoryWarehouseConforms(t *testing.T) {
	Warehouse(t, Draws, func(testing.TB) WarehouseEngine { return memoryWarehouse() })
}

func TestMemoryWarehouseLoadsExactlyOnce(t *testing.T) {
	ExactlyOnce(t, func(testing.TB) WarehouseEngine { return memoryWarehouse() })
}

func memoryLog() LogEngine {
	l := &MemoryLog{}
	return LogEngine{Log: l, Reopen: func() pipeline.Log { return l }, Retire: l.Retire}
}

func memoryWarehouse() WarehouseEngine {
	w := &MemoryWarehouse{}
	return WarehouseEngine{Warehouse: w, Reopen: func() pipeline.Warehouse { return w }}
}
