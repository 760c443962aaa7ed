package session

import (
	"testing"

	"pgregory.net/rapid"
)

func TestModel(t *testing.T) {
	endsWell(t, map[string]chaos{
		"exactly once":               {steps: 300},
		"deaths":                     {steps: 300, deaths: true},
		"restores":                   {steps: 300, restores: true},
		"deaths, restores":           {steps: 300, deaths: true, restores: true},
		"bad data":                   {steps: 300, bad: true, deaths: true},
		"bad data, restores":         {steps: 300, bad: true, deaths: true, restores: true},
		"bad data, in step":          {steps: 300, bad: true, deaths: true, pad: true},
		"in step":                    {steps: 300, pad: true},
		"in step, deaths":            {steps: 300, pad: true, deaths: true},
		"in step, deaths, restores":  {steps: 300, pad: true, deaths: true, restores: true},
		"dropping":                   {steps: 300, drop: true},
		"dropping, deaths":           {steps: 300, drop: true, deaths: true},
		"dropping, deaths, restores": {steps: 300, drop: true, deaths: true, restores: true},
		"checkpoints":                {steps: 300, checkpoints: true},
		"checkpoints, deaths":        {steps: 300, checkpoints: true, deaths: true, restores: true},
		"checkpoints, in step":       {steps: 300, checkpoints: true, pad: true, deaths: true, restores: true},
	})
}

// endsWell plays jobs at random.
func endsWell(t *testing.T, jobs map[string]chaos) {
	t.Helper()
	for name, c := range jobs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				draw := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "") }
				if err := run(draw, c); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}
