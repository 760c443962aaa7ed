package reference

import (
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// operation is an op with its parameters, ready for rows. One of run and keep is set.
type operation struct {
	// out is the type of what run makes.
	out spec.Type
	// run sets out, which is cleared, from the inputs of one row.
	run func(in []*cell, out *cell) error
	// keep says whether a row stays, by its inputs and its place.
	keep func(in []*cell, at place) bool
}

// opMaker is an op before it has parameters.
type opMaker struct {
	// maps is set for ops that are applied to each of their inputs by itself.
	maps bool
	make func(p parameters, in []spec.Type) (operation, error)
}

// ops lists the ops by name.
func ops() map[string]opMaker {
	return map[string]opMaker{
		"fill_null":   {true, fillNull},
		"cast":        {true, castTo},
		"clamp":       {true, clamp},
		"log1p":       {true, logOnePlus},
		"normalize":   {true, normalize},
		"bucketize":   {true, bucketize},
		"sigrid_hash": {true, sigridHash},
		"first_x":     {true, firstX},
		"last_x":      {true, lastX},
		"ngram":       {false, ngram},
		"sample":      {false, sample},
		"expr":        {false, derived},

		"logit":            {true, logit},
		"box_cox":          {true, boxCox},
		"scale_to_0_1":     {true, scaleTo01},
		"scale_to_z_score": {true, scaleToZScore},
		"positive_modulus": {true, positiveModulus},
		"map_id":           {true, mapID},
		"local_hour":       {true, localHour},
		"onehot":           {true, onehot},
		"enumerate":        {true, enumerate},

		"sort_by_score":      {false, sortByScore},
		"cartesian":          {false, cartesian},
		"intersect":          {false, intersect},
		"union":              {false, unite},
		"has_overlap":        {false, compareIDs(hasOverlap)},
		"id_overlap_count":   {false, compareIDs(overlapCount)},
		"jaccard_similarity": {false, compareIDs(jaccard)},
		"cosine_similarity":  {false, cosine},
		"score_sum":          {false, foldScores(func(a, b float64) float64 { return a + b })},
		"score_min":          {false, foldScores(math.Min)},
		"score_max":          {false, foldScores(math.Max)},
	}
}

// parameters are those of one transform in the spec.
type parameters map[string]*pb.Value

// float returns a number, or otherwise if it is not given.
func (p parameters) float(name string, otherwise float64) (float64, error) {
	v, ok := p[name]
	if !ok {
		return otherwise, nil
	}
	x, ok := number(v)
	if !ok {
		return 0, fmt.Errorf("%s is %v; want a number", name, v)
	}
	return x, nil
}

// int returns an integer, or otherwise if it is not given.
func (p parameters) int(name string, otherwise int64) (int64, error) {
	v, ok := p[name]
	if !ok {
		return otherwise, nil
	}
	n, ok := integer(v)
	if !ok {
		return 0, fmt.Errorf("%s is %v; want an integer", name, v)
	}
	return n, nil
}

// floats returns a list of numbers, which a single one is too.
func (p parameters) floats(name string) ([]float64, error) {
	var out []float64
	for _, v := range listed(p[name]) {
		x, ok := number(v)
		if !ok {
			return nil, fmt.Errorf("%s has %v; want numbers", name, v)
		}
		out = append(out, x)
	}
	return out, nil
}

// eachInt makes an op that turns each integer into another, and keeps nulls.
func eachInt(out spec.Type, f func(x int64) int64) operation {
	return operation{out: out, run: func(in []*cell, out *cell) error {
		out.null = in[0].null
		out.gone = append(out.gone, in[0].gone...)
		for _, x := range in[0].ints {
			out.ints = append(out.ints, f(x))
		}
		return nil
	}}
}

// eachFloat makes an op that turns each float into another, and keeps nulls.
func eachFloat(out spec.Type, f func(x float64) float64) operation {
	return operation{out: out, run: func(in []*cell, out *cell) error {
		out.null = in[0].null
		out.gone = append(out.gone, in[0].gone...)
		for _, x := range in[0].floats {
			out.floats = append(out.floats, f(x))
		}
		return nil
	}}
}
