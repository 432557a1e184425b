// Package disktest gives tests a disk that they can fill, on Linux.
package disktest
