//go:build !linux

package feed

import (
	"errors"
	"os"
)

func memoryFile() (*os.File, error) { return nil, errors.ErrUnsupported }

func punch(*os.File, int64, int64) error { return errors.ErrUnsupported }
