// Package images turns an encoded picture into the pixels of a tensor: decoded, cropped, resized, mirrored and
// normalised, one picture at a time, straight to where they are wanted. A Recipe says how. On the path it stands below
// transform, whose image ops put recipes together, and tensor, which has them carried out row by row: no more than one
// decoded picture of a decoding step is ever held.
//
// All of it but the choice of a crop is integer arithmetic, and results are the same bits on every CPU.
//
// A Recipe is immutable and safe for concurrent use. A Studio holds the memory of one picture and is not.
package images
