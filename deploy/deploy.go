// Package deploy holds what the scaled service is run with: the image, a compose file
// for one machine, a Helm chart, alerts and dashboards, and deploy/stack for engines on
// a machine without containers. README.md beside this file says how to use them. Besides,
// it holds units of systemd, for all in one process and for separate ones, and deploy/release, which makes releases.
//
// It ships no code; deploy/commandline and deploy/process do, which are what the binary is to who runs it: flags and
// variables, and the life of a process. Its tests keep the files true: the loaders of the formats read
// them, no secret has a default, and every metric that a rule or a panel names is one
// that the code registers.
package deploy
