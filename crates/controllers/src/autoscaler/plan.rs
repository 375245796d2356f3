//! How many replicas the figures ask for: pure.
//!
//! The number is the present one times the ratio of what is measured to what is wanted, rounded up; a ratio close to
//! one changes nothing. Pods of which nothing is known count against the change: when there should be fewer, as if they
//! did all they may, and when there should be more, as if they did nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::autoscaler::views::{Pod, Rules, Spec};
use crate::pods::Phase;

/// What was measured of one pod, in thousandths, when, and over which time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) value: i64,
    pub(crate) at: Timestamp,
    pub(crate) window: SignedDuration,
}

/// The figures of pods, by name.
pub(crate) type Samples = BTreeMap<String, Sample>;

/// What one metric comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Proposal {
    pub(crate) replicas: i32,
    pub(crate) reading: Reading,
}

/// What was read, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    Value(i64),
    Average(i64),
    /// In percent of what was asked for.
    Utilization {
        percent: i32,
        average: i64,
    },
}

/// How far from one a ratio may be without effect, on either side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Tolerances {
    down: f64,
    up: f64,
}

/// What an autoscaler goes by where it does not say so itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// How often figures are looked at.
    pub period: Duration,
    /// How long fewer replicas must be asked for before there are fewer.
    pub down_window: Duration,
    /// How far from one a ratio may be without effect.
    pub tolerance: f64,
    /// A new pod's processor time does not count for so long unless it is ready.
    pub initialization: Duration,
    /// A pod whose readiness was told so soon after its start has never been ready.
    pub initial_readiness: Duration,
}

/// What every metric is judged by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) now: Timestamp,
    /// How many replicas are asked for, and how many there are.
    pub(crate) asked: i32,
    pub(crate) there: i32,
    pub(crate) pods: &'a [Pod],
    pub(crate) tolerances: Tolerances,
    pub(crate) settings: Settings,
}

/// How much each pod should use.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wanted<'a> {
    /// So many percent of what its containers, or one of them, ask for of a resource.
    Share {
        percent: i32,
        resource: &'a str,
        container: Option<&'a str>,
    },
    /// So much.
    Average(i64),
}

/// Pods by what is known of them.
#[derive(Debug, Default)]
struct Groups<'a> {
    ready: usize,
    unready: BTreeSet<&'a str>,
    missing: BTreeSet<&'a str>,
    ignored: BTreeSet<&'a str>,
}

const NO_PODS: &str = "no pods returned by selector while calculating replica count";

/// What the figures of pods come to. `cpu`: new pods need their processor time to start.
pub(crate) fn by_pods(
    seen: &Seen<'_>,
    mut samples: Samples,
    wanted: Wanted<'_>,
    cpu: bool,
) -> Result<Proposal, String> {
    if seen.pods.is_empty() {
        return Err(NO_PODS.to_owned());
    }
    let groups = group(seen, &samples, cpu);
    samples.retain(|name, _| !groups.ignored.contains(&**name) && !groups.unready.contains(&**name));
    if samples.is_empty() {
        return Err("did not receive metrics for targeted pods (pods might be unready)".to_owned());
    }
    let requests = wanted.requests(seen.pods)?;
    let (ratio, reading) = wanted.measure(&samples, &requests)?;
    let proposal = |replicas| Proposal { replicas, reading };
    let grows_with_unready = !groups.unready.is_empty() && ratio > 1.0;
    if !grows_with_unready && groups.missing.is_empty() {
        return Ok(match seen.tolerances.covers(ratio) {
            true => proposal(seen.asked),
            false => proposal(times(ratio, groups.ready)),
        });
    }
    let guess = |name: &str| {
        if ratio < 1.0 {
            wanted.most(name, &requests)
        } else {
            0
        }
    };
    if ratio != 1.0 {
        let missing = groups.missing.iter();
        samples.extend(missing.map(|name| ((*name).to_owned(), Sample::guessed(guess(name), seen.now))));
    }
    if grows_with_unready {
        let unready = groups.unready.iter();
        samples.extend(unready.map(|name| ((*name).to_owned(), Sample::guessed(0, seen.now))));
    }
    let (guessed, _) = wanted.measure(&samples, &requests)?;
    let turns = (ratio < 1.0 && guessed > 1.0) || (ratio > 1.0 && guessed < 1.0);
    if seen.tolerances.covers(guessed) || turns {
        return Ok(proposal(seen.asked));
    }
    let replicas = times(guessed, samples.len());
    let turns = (guessed < 1.0 && replicas > seen.asked) || (guessed > 1.0 && replicas < seen.asked);
    Ok(proposal(if turns { seen.asked } else { replicas }))
}

/// What a figure of something else comes to, if it should be so much in all.
pub(crate) fn by_value(seen: &Seen<'_>, usage: i64, target: i64) -> Result<Proposal, String> {
    let ratio = usage as f64 / target as f64;
    let reading = Reading::Value(usage);
    let replicas = if seen.asked == 0 {
        ratio.ceil() as i32
    } else if seen.tolerances.covers(ratio) {
        seen.asked
    } else if seen.pods.is_empty() {
        return Err(format!("unable to calculate ready pods: {NO_PODS}"));
    } else {
        times(ratio, seen.pods.iter().filter(|pod| pod.works()).count())
    };
    Ok(Proposal { replicas, reading })
}

/// What a figure of something else comes to, if it should be so much for each replica that there is.
pub(crate) fn by_average(seen: &Seen<'_>, usage: i64, target: i64) -> Proposal {
    let there = f64::from(seen.there);
    let ratio = usage as f64 / (target as f64 * there);
    let replicas = match seen.tolerances.covers(ratio) {
        true => seen.there,
        false => (usage as f64 / target as f64).ceil() as i32,
    };
    let average = match usage {
        i64::MAX => usage,
        usage => (usage as f64 / there.max(1.0)).ceil() as i64,
    };
    let reading = Reading::Average(average);
    Proposal { replicas, reading }
}

fn times(ratio: f64, pods: usize) -> i32 {
    (ratio * pods as f64).ceil() as i32
}

fn group<'a>(seen: &Seen<'a>, samples: &Samples, cpu: bool) -> Groups<'a> {
    let mut groups = Groups::default();
    for pod in seen.pods {
        let name = pod.name.as_str();
        let phase = pod.body.status.phase;
        match samples.get(name) {
            _ if pod.deleting || phase == Phase::Failed => groups.ignored.insert(name),
            _ if phase == Phase::Pending => groups.unready.insert(name),
            None => groups.missing.insert(name),
            Some(sample) if cpu && is_starting(seen, pod, sample) => groups.unready.insert(name),
            Some(_) => {
                groups.ready += 1;
                true
            }
        };
    }
    groups
}

/// Whether what a pod uses is what it needs to start.
fn is_starting(seen: &Seen<'_>, pod: &Pod, sample: &Sample) -> bool {
    let (Some(ready), Some(start)) = (pod.ready(), pod.body.status.start_time) else {
        return true;
    };
    let is_not = ready.status == "False";
    let since = ready.last_transition_time.unwrap_or_default();
    let after = |moment: Timestamp, by: Duration| moment.checked_add(by).unwrap_or(Timestamp::MAX);
    match after(start, seen.settings.initialization) > seen.now {
        true => is_not || sample.at < since.checked_add(sample.window).unwrap_or(Timestamp::MAX),
        false => is_not && after(start, seen.settings.initial_readiness) > since,
    }
}

// === impl Settings ===

/// As kube-controller-manager has them.
impl Default for Settings {
    fn default() -> Self {
        Self {
            period: Duration::from_secs(15),
            down_window: Duration::from_secs(300),
            tolerance: 0.1,
            initialization: Duration::from_secs(300),
            initial_readiness: Duration::from_secs(30),
        }
    }
}

// === impl Sample ===

impl Sample {
    fn guessed(value: i64, at: Timestamp) -> Self {
        let window = SignedDuration::ZERO;
        Self { value, at, window }
    }
}

// === impl Tolerances ===

impl Tolerances {
    /// Those of an autoscaler, where it has some.
    pub(crate) fn of(spec: &Spec, usual: f64) -> Self {
        let own = |rules: Option<&Rules>| {
            let tolerance = rules.and_then(|rules| rules.tolerance);
            tolerance.map_or(usual, |tolerance| tolerance.0 as f64 / 1000.0)
        };
        let behavior = spec.behavior.as_ref();
        Self {
            down: own(behavior.map(|behavior| &behavior.scale_down)),
            up: own(behavior.map(|behavior| &behavior.scale_up)),
        }
    }

    fn covers(self, ratio: f64) -> bool {
        (1.0 - self.down..=1.0 + self.up).contains(&ratio)
    }
}

// === impl Wanted ===

type Requests = BTreeMap<String, i64>;

impl Wanted<'_> {
    /// What each pod asks for, where that matters.
    fn requests(self, pods: &[Pod]) -> Result<Requests, String> {
        let Self::Share {
            resource, container, ..
        } = self
        else {
            return Ok(Requests::new());
        };
        let request = |pod: &Pod| Ok((pod.name.clone(), requested(pod, resource, container)?));
        pods.iter().map(request).collect()
    }

    /// The most that a pod of which nothing is known is taken to use.
    fn most(self, name: &str, requests: &Requests) -> i64 {
        match self {
            Self::Average(target) => target,
            Self::Share { percent, .. } => {
                let request = requests.get(name).copied().unwrap_or_default();
                request * i64::from(percent.max(100)) / 100
            }
        }
    }

    /// How much is used for each part that should be, and what was read.
    fn measure(self, samples: &Samples, requests: &Requests) -> Result<(f64, Reading), String> {
        match self {
            Self::Average(target) => {
                let sum: i64 = samples.values().map(|sample| sample.value).sum();
                let average = sum / count(samples.len());
                Ok((average as f64 / target as f64, Reading::Average(average)))
            }
            Self::Share { percent: target, .. } => {
                let known = samples.iter();
                let known = known.filter_map(|(name, sample)| Some((sample.value, requests.get(name)?)));
                let (mut used, mut asked, mut pods) = (0, 0, 0);
                known.for_each(|(value, request)| {
                    (used, asked, pods) = (used + value, asked + request, pods + 1);
                });
                if asked == 0 {
                    return Err("no metrics returned matched known pods".to_owned());
                }
                let percent = i32::try_from(used * 100 / asked).unwrap_or(i32::MAX);
                let average = used / count(pods);
                let reading = Reading::Utilization { percent, average };
                Ok((f64::from(percent) / f64::from(target), reading))
            }
        }
    }
}

fn count(pods: usize) -> i64 {
    i64::try_from(pods).unwrap_or(i64::MAX).max(1)
}

/// What a pod, or one of its containers, asks for of a resource. A pod that asks for itself speaks for its containers.
fn requested(pod: &Pod, resource: &str, container: Option<&str>) -> Result<i64, String> {
    let (spec, name) = (&pod.body.spec, &pod.name);
    let sidecars = spec
        .init_containers
        .iter()
        .filter(|one| one.restart_policy == "Always");
    let mut containers = spec.containers.iter().chain(sidecars);
    if let Some(wanted) = container {
        let found = containers.find(|one| one.name == wanted);
        let found = found.ok_or_else(|| format!("container {wanted} not found in Pod {name}"))?;
        let request = found.resources.requests.get(resource);
        let missing = || format!("missing request for {resource} in container {wanted} of Pod {name}");
        return request.map(|request| request.0).ok_or_else(missing);
    }
    if !spec.resources.requests.is_empty() {
        let sum = || {
            containers
                .filter_map(|one| one.resources.requests.get(resource))
                .map(|one| one.0)
        };
        let request = spec.resources.requests.get(resource).map(|request| request.0);
        let request = request.or_else(|| sum().reduce(|sum, one| sum + one));
        return request.ok_or_else(|| format!("missing pod-level request for {resource} in Pod {name}"));
    }
    let mut sum = 0;
    for one in containers {
        let request = one.resources.requests.get(resource);
        let missing = || {
            format!(
                "missing request for {resource} in container {} of Pod {name}",
                one.name
            )
        };
        sum += request.ok_or_else(missing)?.0;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests;
