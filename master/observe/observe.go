// Package observe makes of what workers and trainers report what the fleet does, what its trainers could take, and why they wait.
// Workers' reports and trainers' Syncs come in; autoscale, the streams that each trainer opens, the Observe call and the dashboard
// read what comes out. It knows the clock only by the times that it is told. A new leader begins anew.
package observe
