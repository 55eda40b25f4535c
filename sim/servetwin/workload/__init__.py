"""What the cluster is asked to do: arrivals, lengths, shared prefixes, sessions, classes and recorded traces.

``spec.WorkloadSpec`` describes a workload and ``build.build_stream`` turns it into a stream of requests, which
``source.Source`` feeds into the simulation. Nothing here knows an engine: only ``Request.segments`` says what requests
share.
"""
