// Package deploy checks what users are given to run SQ with: the compose file, the image recipe and the Tiltfile.
//
//  1. Every SQ container's environment is one that its program accepts, and its image is one that the recipe builds.
//  2. The Tiltfile is a program that Tilt can read, and names services that the compose file has.
//
// Tests only; they start no container. deploy/compose/smoke.sh does, where there is an engine.
package deploy
