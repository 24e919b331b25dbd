// Package inspect shows a broker's files to people and programs.
//
//  1. Nothing is written or locked: the files of a running broker can be looked at.
//  2. Text is for people and may change; JSON has one object a line for frames and records, and one object else, and only grows.
//  3. Frames are shown as they are read: a file of any size takes the memory of one batch.
//
// Called by the commands `sq inspect` and `sq doctor`. What is damaged is decided in broker/datadir; this package prints.
package inspect
