//! Text encoding of the HTTP server's metrics.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::Ordering;

use setpoint_api::Gvr;
use setpoint_values::metrics::Histogram;

use super::{Labels, Metrics, MetricsSource, OutcomeCounter, RequestSeries, TextEncoder, WatchSeries};
use crate::version::Version;

/// Number of lowest bounds that the SLI duration histogram leaves out.
const SLI_SKIPPED_BOUNDS: usize = 2;

/// Histograms summed over several series.
type SummedSeries = HashMap<Labels, (Histogram, Gvr)>;

impl MetricsSource for Metrics {
    fn write(&self, text: &mut TextEncoder) {
        self.write_requests(text);
        self.write_durations(text);
        self.write_sizes(text);
        self.write_in_flight(text);
        self.write_watches(text);
        write_tally(
            text,
            "authentication_attempts",
            &self.authenticated,
            ["success", "failure"],
        );
        write_tally(
            text,
            "authorization_attempts_total",
            &self.authorized,
            ["allowed", "denied"],
        );
        write_build(text);
    }
}

impl Metrics {
    fn write_requests(&self, text: &mut TextEncoder) {
        text.family("apiserver_request_total", "counter", "Finished requests.");
        for (labels, series) in self.requests.read().iter() {
            let code = labels.code.to_string();
            let mut pairs = labels.pairs(&series.resource);
            pairs.push(("dry_run", labels.dry_run()));
            pairs.push(("code", &code));
            text.sample("apiserver_request_total", &pairs, series.durations.count());
        }
    }

    fn write_durations(&self, text: &mut TextEncoder) {
        const NAME: &str = "apiserver_request_duration_seconds";
        text.family(NAME, "histogram", "Time until the response began.");
        let by = |labels: &Labels| Labels { code: 0, ..*labels };
        for (labels, (snapshot, resource)) in &self.summed(by, |series| series.durations.snapshot()) {
            let mut pairs = labels.pairs(resource);
            pairs.push(("dry_run", labels.dry_run()));
            text.histogram(NAME, &pairs, &snapshot.buckets());
        }
        const LEVEL: &str = "apiserver_request_sli_duration_seconds";
        text.family(
            LEVEL,
            "histogram",
            "Time until the response began, without watches and streams.",
        );
        for (labels, (snapshot, resource)) in &self.summed(without_code, |series| series.durations.snapshot())
        {
            if !matches!(labels.verb, "WATCH" | "CONNECT") {
                let snapshot = snapshot.without_lowest(SLI_SKIPPED_BOUNDS);
                text.histogram(LEVEL, &labels.pairs(resource), &snapshot.buckets());
            }
        }
    }

    fn write_sizes(&self, text: &mut TextEncoder) {
        const NAME: &str = "apiserver_response_sizes";
        text.family(NAME, "histogram", "Size of responses in bytes.");
        for (labels, (snapshot, resource)) in &self.summed(without_code, |series| series.sizes.snapshot()) {
            if matches!(labels.verb, "GET" | "LIST") {
                text.histogram(NAME, &labels.pairs(resource), &snapshot.buckets());
            }
        }
    }

    fn write_in_flight(&self, text: &mut TextEncoder) {
        const NAME: &str = "apiserver_current_inflight_requests";
        text.family(NAME, "gauge", "Executing requests, by kind of request.");
        for (kind, gauge) in [("mutating", &self.mutating), ("readOnly", &self.reading)] {
            text.sample(NAME, &[("request_kind", kind)], gauge.load(Ordering::Relaxed));
        }
    }

    fn write_watches(&self, text: &mut TextEncoder) {
        let watches = self.watches.read();
        let of = |one: &WatchSeries| one.open.load(Ordering::Relaxed);
        text.family("apiserver_longrunning_requests", "gauge", "Open watches.");
        for one in watches.values() {
            let labels = Labels {
                scope: "cluster",
                ..Labels::new("WATCH", None)
            };
            text.sample(
                "apiserver_longrunning_requests",
                &labels.pairs(&one.resource),
                of(one),
            );
        }
        text.family(
            "apiserver_watch_events_total",
            "counter",
            "Events sent to watchers.",
        );
        for one in watches.values() {
            text.sample(
                "apiserver_watch_events_total",
                &named(&one.resource),
                one.events.count(),
            );
        }
        const NAME: &str = "apiserver_watch_events_sizes";
        text.family(NAME, "histogram", "Size of watch events in bytes.");
        for one in watches.values() {
            text.histogram(NAME, &named(&one.resource), &one.events.snapshot().buckets());
        }
    }

    /// Histograms summed over all series that `by` maps to the same labels.
    fn summed(
        &self,
        by: impl Fn(&Labels) -> Labels,
        of: impl Fn(&RequestSeries) -> Histogram,
    ) -> SummedSeries {
        let mut sums = SummedSeries::new();
        for (labels, series) in self.requests.read().iter() {
            let own = of(series);
            match sums.entry(by(labels)) {
                Entry::Occupied(mut sum) => sum.get_mut().0.add(&own),
                Entry::Vacant(sum) => drop(sum.insert((own, series.resource.clone()))),
            }
        }
        sums
    }
}

fn without_code(labels: &Labels) -> Labels {
    Labels {
        code: 0,
        dry_run: false,
        ..*labels
    }
}

fn write_tally(text: &mut TextEncoder, name: &str, tally: &OutcomeCounter, results: [&str; 2]) {
    text.family(name, "counter", "Attempts, by their result.");
    for (result, counter) in results.into_iter().zip([&tally.success, &tally.failure]) {
        text.sample(name, &[("result", result)], counter.load(Ordering::Relaxed));
    }
}

fn write_build(text: &mut TextEncoder) {
    let version = Version::server();
    text.family(
        "kubernetes_build_info",
        "gauge",
        "Always 1; the labels have the version and build.",
    );
    let labels = [
        ("build_date", version.build_date.as_str()),
        ("compiler", &version.compiler),
        ("git_commit", &version.git_commit),
        ("git_tree_state", &version.git_tree_state),
        ("git_version", &version.git_version),
        ("go_version", &version.go_version),
        ("major", &version.major),
        ("minor", &version.minor),
        ("platform", &version.platform),
    ];
    text.sample("kubernetes_build_info", &labels, 1);
}

fn named(resource: &Gvr) -> [(&'static str, &str); 3] {
    [
        ("group", &resource.group),
        ("version", &resource.version),
        ("resource", &resource.resource),
    ]
}

impl Labels {
    fn pairs<'a>(&'a self, resource: &'a Gvr) -> Vec<(&'static str, &'a str)> {
        vec![
            ("verb", self.verb),
            ("group", &resource.group),
            ("version", &resource.version),
            ("resource", &resource.resource),
            ("subresource", self.subresource),
            ("scope", self.scope),
            ("component", "apiserver"),
        ]
    }

    fn dry_run(&self) -> &'static str {
        if self.dry_run { "All" } else { "" }
    }
}
