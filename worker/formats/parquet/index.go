package parquet

import (
	"errors"
	"fmt"

	"github.com/penstock-ml/penstock/internal/formats/format"
	footer "github.com/penstock-ml/penstock/internal/formats/parquet"
)

// Select has rows of the row group be passed over by page indexes: of pages without a row that is decoded nothing is
// asked of their Source, not even their headers. What an index says of pages that are decoded is checked: that they lie
// there, have as many rows, and begin with one. Of those that are passed over it is believed: if they have more or
// fewer rows than it says, rows behind them are taken for others. A window that ends with a page does not look at the
// next one: if that goes on with its last list, the list is cut short, and the next window, if it is decoded, fails.
func (d *Decoder) Select(s format.Selection) error {
	selection, ok := s.(*footer.Selection)
	if !ok || len(selection.Pages) != len(d.columns) {
		return fmt.Errorf("the selection is not of the %d columns", len(d.columns))
	}
	for i, index := range selection.Pages {
		d.columns[i].index = index
	}
	return nil
}

// left is how many bytes the page at nextAt may have.
func (p *pages) left() int {
	end := p.length
	if p.index != nil {
		k := p.dataPage
		if k < len(p.index) && p.index[k].Offset <= p.chunkAt+int64(p.nextAt) {
			k++
		}
		if k < len(p.index) {
			end = int(p.index[k].Offset - p.chunkAt)
		}
	}
	return end - p.nextAt
}

// checkPage compares the data page whose header was read with the index.
func (c *column) checkPage() error {
	k := c.dataPage
	if c.index == nil {
		return nil
	}
	if k >= len(c.index) || c.index[k].Offset != c.chunkAt+int64(c.nextAt) {
		return errors.New("the page index does not list it: the file is damaged")
	}
	if rows, claimed := int64(c.header.values), footer.RowsOf(c.index, k, c.rows); c.maxRep == 0 && rows != claimed {
		return fmt.Errorf("it has %d rows where the page index says %d: the file is damaged", rows, claimed)
	}
	return nil
}

// checkRows compares the data page whose levels begin with the index, if it has lists: of these, only levels tell how
// many there are. Some writers let pages begin in the middle of a list and list them all the same.
func (c *column) checkRows() error {
	if c.index == nil || c.maxRep == 0 {
		return nil
	}
	rows, err := c.block.rep.starts(c.header.values)
	if err != nil {
		return err
	}
	const mend = "write the file again, or without a page index"
	if claimed := footer.RowsOf(c.index, c.dataPage-1, c.rows); int64(rows) != claimed {
		return fmt.Errorf("%d rows begin in it where the page index says %d: %s", rows, claimed, mend)
	}
	if first, err := c.block.rep.starts(1); err != nil || first == 0 {
		return errors.New("it begins in the middle of a row, which no page may that a page index lists: " + mend)
	}
	return nil
}

// jump passes over as many of the next n rows as lie before the page that has the row behind them, and returns how many
// are left.
func (c *column) jump(n int) (int, error) {
	row := c.rows - c.rowsLeft + int64(n)
	page := footer.PageAt(c.index, row, c.rows)
	if page < len(c.index) && (page < c.dataPage || c.index[page].FirstRow <= c.rows-c.rowsLeft) {
		return n, nil
	}
	c.block.begin()
	c.pageLeft, c.dropped = 0, false
	if page == len(c.index) {
		c.nextAt, c.peeked, c.rowsLeft, c.valuesLeft = c.length, false, 0, 0
		return 0, nil
	}
	if c.nextAt == 0 && c.index[0].Offset > c.chunkAt { // what stands in front is a dictionary
		ok, err := c.peekHeader()
		if err == nil && ok && c.header.kind == dictionaryPage {
			err = c.loadDictionary()
		}
		if err != nil {
			return 0, err
		}
	}
	to := c.index[page]
	c.nextAt, c.peeked, c.dataPage = int(to.Offset-c.chunkAt), false, page
	c.rowsLeft = c.rows - to.FirstRow
	if c.maxRep == 0 {
		c.valuesLeft = c.rowsLeft
	} else {
		c.jumped = true
	}
	return int(row - to.FirstRow), nil
}
