//! The figures of the HTTP side as text.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use setpoint_api::Gvr;

use super::histogram::Counted;
use super::{Buckets, DURATIONS, EVENT_SIZES, Labels, Metrics, SIZES, Series, Source, Tally, Text, Watches};
use crate::version::Version;

/// How many of the lowest bounds the durations of a service level do without.
const UNINTERESTING: usize = 2;

/// Histograms of several series as one.
type Summed = HashMap<Labels, (Counted, Gvr)>;

impl Source for Metrics {
    fn write(&self, text: &mut Text) {
        self.write_requests(text);
        self.write_durations(text);
        self.write_sizes(text);
        self.write_in_flight(text);
        self.write_watches(text);
        write_tally(
            text,
            "authentication_attempts",
            &self.known,
            ["success", "failure"],
        );
        write_tally(
            text,
            "authorization_attempts_total",
            &self.allowed,
            ["allowed", "denied"],
        );
        let handshakes = "apiserver_tls_handshake_errors_total";
        text.family(
            handshakes,
            "counter",
            "Connections that failed before a request was read.",
        );
        text.sample(handshakes, &[], self.failed_handshakes.load(Ordering::Relaxed));
        write_build(text);
    }
}

impl Metrics {
    fn write_requests(&self, text: &mut Text) {
        text.family("apiserver_request_total", "counter", "Requests answered.");
        for (labels, series) in self.requests.read().iter() {
            let code = labels.code.to_string();
            let mut pairs = labels.pairs(&series.resource);
            pairs.push(("dry_run", labels.dry_run()));
            pairs.push(("code", &code));
            text.sample("apiserver_request_total", &pairs, series.durations.total());
        }
    }

    fn write_durations(&self, text: &mut Text) {
        const NAME: &str = "apiserver_request_duration_seconds";
        text.family(
            NAME,
            "histogram",
            "How long requests took until their answer began.",
        );
        let by = |labels: &Labels| Labels { code: 0, ..*labels };
        for (labels, (counted, resource)) in &self.summed(by, |series| series.durations.counted()) {
            let mut pairs = labels.pairs(resource);
            pairs.push(("dry_run", labels.dry_run()));
            text.histogram(NAME, &pairs, &seconds(&DURATIONS, counted));
        }
        const LEVEL: &str = "apiserver_request_sli_duration_seconds";
        text.family(
            LEVEL,
            "histogram",
            "How long requests took that are meant to be short.",
        );
        for (labels, (counted, resource)) in &self.summed(without_code, |series| series.durations.counted()) {
            if !matches!(labels.verb, "WATCH" | "CONNECT") {
                let counted = counted.coarser(UNINTERESTING);
                text.histogram(
                    LEVEL,
                    &labels.pairs(resource),
                    &seconds(&DURATIONS[UNINTERESTING..], &counted),
                );
            }
        }
    }

    fn write_sizes(&self, text: &mut Text) {
        const NAME: &str = "apiserver_response_sizes";
        text.family(NAME, "histogram", "How many bytes answers have.");
        for (labels, (counted, resource)) in &self.summed(without_code, |series| series.sizes.counted()) {
            if matches!(labels.verb, "GET" | "LIST") {
                text.histogram(NAME, &labels.pairs(resource), &whole(&SIZES, counted));
            }
        }
    }

    fn write_in_flight(&self, text: &mut Text) {
        const NAME: &str = "apiserver_current_inflight_requests";
        text.family(NAME, "gauge", "Requests under way, by kind of request.");
        for (kind, gauge) in [("mutating", &self.mutating), ("readOnly", &self.reading)] {
            text.sample(NAME, &[("request_kind", kind)], gauge.load(Ordering::Relaxed));
        }
    }

    fn write_watches(&self, text: &mut Text) {
        let watches = self.watches.read();
        let of = |one: &Watches| one.open.load(Ordering::Relaxed);
        text.family(
            "apiserver_longrunning_requests",
            "gauge",
            "Watches that are open.",
        );
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
                one.events.total(),
            );
        }
        const NAME: &str = "apiserver_watch_events_sizes";
        text.family(NAME, "histogram", "How many bytes events have.");
        for one in watches.values() {
            text.histogram(
                NAME,
                &named(&one.resource),
                &whole(&EVENT_SIZES, &one.events.counted()),
            );
        }
    }

    /// The histograms of all series that are one by these labels.
    fn summed(&self, by: impl Fn(&Labels) -> Labels, of: impl Fn(&Series) -> Counted) -> Summed {
        let mut sums = Summed::new();
        for (labels, series) in self.requests.read().iter() {
            let fresh = || (Counted::default(), series.resource.clone());
            let (sum, _) = sums.entry(by(labels)).or_insert_with(fresh);
            sum.add(&of(series));
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

#[allow(clippy::cast_precision_loss, reason = "a sum of seconds need not be exact")]
fn seconds<'a>(bounds: &'a [f64], counted: &'a Counted) -> Buckets<'a> {
    Buckets {
        bounds,
        counts: &counted.counts,
        sum: counted.sum as f64 / 1e9,
    }
}

#[allow(clippy::cast_precision_loss, reason = "a sum of bytes need not be exact")]
fn whole<'a>(bounds: &'a [f64], counted: &'a Counted) -> Buckets<'a> {
    Buckets {
        bounds,
        counts: &counted.counts,
        sum: counted.sum as f64,
    }
}

fn write_tally(text: &mut Text, name: &str, tally: &Tally, results: [&str; 2]) {
    text.family(name, "counter", "Attempts, by their result.");
    for (result, counter) in results.into_iter().zip([&tally.well, &tally.ill]) {
        text.sample(name, &[("result", result)], counter.load(Ordering::Relaxed));
    }
}

fn write_build(text: &mut Text) {
    let version = Version::server();
    text.family(
        "kubernetes_build_info",
        "gauge",
        "Always one; the labels say what this is.",
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
