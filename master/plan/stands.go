package plan

import (
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// Stands is what integers of the columns that a program reads stand for, by column, where files say so.
func Stands(schema spec.Schema, program *pb.Program) map[string]string {
	reads := map[string]bool{}
	for _, s := range program.GetSources() {
		if s.GetId() != 0 || len(s.GetStored()) > 0 || s.GetWidened() { // files may have another column or type
			continue
		}
		reads[spec.ColumnName(s.GetPath(), s.GetField())] = true
	}
	stands := map[string]string{}
	for _, c := range schema.Columns {
		if of := c.Stands(); reads[c.Name] && !c.Partition && of != "" {
			stands[c.Name] = of
		}
	}
	return stands
}

// CheckStands fails for files in which integers stand for something else.
func CheckStands(stands map[string]string, files []File) error {
	if len(stands) == 0 {
		return nil
	}
	for _, f := range files {
		for _, c := range f.Holds.Columns().Schema.Columns {
			if want, of := stands[c.Name], c.Stands(); want != "" && of != "" && of != want {
				return fmt.Errorf("plan: %s: column %s is %s here, and %s in the files with which the session was "+
					"opened: leave this one out, or convert it", f.GetUri(), c.Name, of, want)
			}
		}
	}
	return nil
}
