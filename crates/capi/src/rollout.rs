//! How many machines each MachineSet of a MachineDeployment gets next.

use api::capi::v1beta2::RollingUpdate;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// One MachineSet, as far as a rollout looks at it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Set {
    /// How many it shall have: `spec.replicas`.
    pub wanted: i32,
    /// How many it has: `status.replicas`.
    pub present: i32,
    /// How many of those are available.
    pub available: i32,
}

/// What a rollout keeps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Machines of the MachineDeployment.
    pub replicas: i32,
    /// How many there may be above that.
    pub surge: i32,
    /// How many may be missing from that.
    pub unavailable: i32,
}

/// A number of machines that is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither a number nor a percentage such as \"25%\"")]
pub struct NotACount(pub String);

/// Which way a percentage is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the greater number.
    Up,
    /// To the smaller number.
    Down,
}

/// A number, or a percentage of `of`.
///
/// # Errors
/// If it is neither.
pub fn count(value: &IntOrString, of: i32, rounding: Rounding) -> Result<i32, NotACount> {
    match value {
        IntOrString::Int(number) => Ok(*number),
        IntOrString::String(text) => {
            let percent = text.strip_suffix('%').and_then(|digits| digits.parse::<u32>().ok());
            let percent = percent.ok_or_else(|| NotACount(text.clone()))?;
            let parts = i64::from(percent) * i64::from(of);
            let rounded = match rounding {
                Rounding::Up => (parts + 99) / 100,
                Rounding::Down => parts / 100,
            };
            Ok(i32::try_from(rounded).unwrap_or(i32::MAX))
        }
    }
}

impl Bounds {
    /// The bounds of a rolling update. If both come to nothing, one machine may be missing: else nothing could move.
    ///
    /// # Errors
    /// If a bound is neither a number nor a percentage.
    pub fn of(replicas: i32, update: &RollingUpdate) -> Result<Self, NotACount> {
        let surge = update.max_surge.as_ref().map(|value| count(value, replicas, Rounding::Up));
        let unavailable = update.max_unavailable.as_ref().map(|value| count(value, replicas, Rounding::Down));
        let (surge, unavailable) = (surge.unwrap_or(Ok(1))?, unavailable.unwrap_or(Ok(0))?);
        let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
        Ok(Bounds { replicas, surge: surge.max(0), unavailable: unavailable.clamp(0, replicas.max(0)) })
    }

    /// How many have to stay available.
    pub fn least_available(self) -> i32 {
        (self.replicas - self.unavailable).max(0)
    }
}

/// What each MachineSet shall have next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intents {
    /// The one with the current template.
    pub new: i32,
    /// The others, in the order in which they were given.
    pub old: Vec<i32>,
}

/// One step of a rolling update. `old` is sorted, those that go first to the front.
///
/// # Guarantees
/// - The sets together never want more than the replicas and the surge, unless they do already.
/// - Nothing available is taken away that has to stay available.
/// - Applied again and again, as machines come and go, it ends with `new` at the replicas and the others at zero.
pub fn rolling_update(bounds: Bounds, new: Set, old: &[Set]) -> Intents {
    let mut intents = Intents { new: new.wanted, old: old.iter().map(|set| set.wanted).collect() };
    intents.new = scale_new(bounds.replicas, bounds.surge, new, old);
    scale_old(bounds, new, old, &mut intents);
    break_deadlock(new, old, &mut intents);
    intents
}

/// The current set: down to the replicas at once, up as far as there is room.
fn scale_new(replicas: i32, surge: i32, new: Set, old: &[Set]) -> i32 {
    if new.wanted >= replicas {
        return replicas;
    }
    let total: i32 = old.iter().chain([&new]).map(|set| set.wanted.max(set.present)).sum();
    let room = (replicas + surge - total).max(0);
    new.wanted + room.min(replicas - new.wanted)
}

fn scale_old(bounds: Bounds, new: Set, old: &[Set], intents: &mut Intents) {
    let wanted: i32 = old.iter().map(|set| set.wanted).sum();
    if wanted == 0 {
        return;
    }
    let least = bounds.least_available();
    let leaving = |(set, intent): (&Set, &i32)| (set.present - intent).max(0);
    let leaving: i32 =
        old.iter().zip(&intents.old).map(leaving).sum::<i32>() + (new.present - intents.new).max(0);
    let coming = (new.wanted - new.available).max(0);
    let mut budget = wanted + new.wanted - leaving - least - coming;
    let mut spare = old.iter().chain([&new]).map(|set| set.staying(set.wanted)).sum::<i32>() - least;
    // First what serves nobody, then anything.
    for only_unavailable in [true, false] {
        for (set, intent) in old.iter().zip(intents.old.iter_mut()) {
            if budget <= 0 {
                return;
            }
            let most = if only_unavailable { (*intent - set.available).max(0) } else { *intent };
            let next = (*intent - most.min(budget)).max(set.least_for(*intent, spare));
            if next < *intent {
                spare -= set.staying(*intent) - set.staying(next);
                budget -= *intent - next;
                *intent = next;
            }
        }
    }
}

impl Set {
    /// How many available machines are left, at worst, once it has `intent`: those that go may all be available.
    fn staying(&self, intent: i32) -> i32 {
        (self.available - (self.present - intent).max(0)).max(0)
    }

    /// The least that it may be given instead of `intent` so that at most `spare` available machines go.
    fn least_for(&self, intent: i32, spare: i32) -> i32 {
        match self.staying(intent) - spare.max(0) {
            needed if needed > 0 => self.present - self.available + needed,
            _ => 0,
        }
    }
}

/// Machines of old sets that never become available hold a rollout that may lose nothing. Once all of the new ones are
/// available and nothing moves, one of them goes.
fn break_deadlock(new: Set, old: &[Set], intents: &mut Intents) {
    let settled = |set: &Set, intent: i32| set.wanted == set.present && set.wanted == intent;
    let moving = !settled(&new, intents.new)
        || old.iter().zip(&intents.old).any(|(set, intent)| !settled(set, *intent));
    if moving || new.available < new.wanted {
        return;
    }
    let stuck = old.iter().position(|set| set.wanted > 0 && set.available < set.wanted);
    if let Some(stuck) = stuck {
        intents.old[stuck] -= 1;
    }
}

/// One step where machines are replaced only when somebody deletes them.
pub fn on_delete(replicas: i32, new: Set, old: &[Set]) -> Intents {
    let mut intents = Intents { new: scale_new(replicas, 0, new, old), old: Vec::new() };
    // What somebody deleted from an old set stays deleted.
    intents.old = old.iter().map(|set| set.wanted.min(set.present)).collect();
    let mut excess = intents.old.iter().sum::<i32>() + intents.new - replicas;
    for intent in &mut intents.old {
        let step = excess.clamp(0, *intent);
        *intent -= step;
        excess -= step;
    }
    intents
}

/// A set of a MachineDeployment whose rollout is paused in the middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// How many it shall have.
    pub wanted: i32,
    /// How many it has that are available.
    pub available: i32,
    /// The replicas that the MachineDeployment had when the set was last scaled.
    pub desired: Option<i32>,
    /// The most machines that all sets together might have had then.
    pub most: Option<i32>,
}

/// Scaling while the rollout is paused: each set gets its share. `sets` are ordered with the greatest first; `newest`
/// is the place of the current one.
pub fn paused(bounds: Bounds, sets: &[Share], newest: Option<usize>) -> Vec<i32> {
    let mut intents: Vec<i32> = sets.iter().map(|set| set.wanted).collect();
    let active: Vec<usize> = (0..sets.len()).filter(|&index| sets[index].wanted > 0).collect();
    let only = match (&active[..], newest) {
        ([one], _) => Some(*one),
        ([], newest) => newest,
        _ => None,
    };
    if let Some(only) = only {
        intents[only] = bounds.replicas;
        return intents;
    }
    if let Some(newest) = newest {
        let set = sets[newest];
        let full = set.desired == Some(bounds.replicas);
        if full && set.wanted == bounds.replicas && set.available == bounds.replicas {
            for (index, intent) in intents.iter_mut().enumerate() {
                *intent = if index == newest { *intent } else { 0 };
            }
            return intents;
        }
    }
    proportional(bounds, sets, &active, &mut intents);
    intents
}

fn proportional(bounds: Bounds, sets: &[Share], active: &[usize], intents: &mut [i32]) {
    let allowed = if bounds.replicas > 0 { bounds.replicas + bounds.surge } else { 0 };
    let total: i32 = active.iter().map(|&index| sets[index].wanted).sum();
    let add = allowed - total;
    let mut added = 0;
    for &index in active {
        let set = sets[index];
        let share = share(set, allowed, total);
        let share = if add > 0 { share.clamp(0, add - added) } else { share.clamp(add - added, 0) };
        intents[index] = (set.wanted + share).max(0);
        added += intents[index] - set.wanted;
    }
    // Rounding leaves some over: the greatest takes them, as far as it can.
    let mut left = add - added;
    for &index in active {
        let next = (intents[index] + left).max(0);
        left -= next - intents[index];
        intents[index] = next;
    }
}

/// By how much a set grows or shrinks so that its part of the whole stays what it was.
fn share(set: Share, allowed: i32, total: i32) -> i32 {
    let base = set.most.filter(|most| *most > 0).unwrap_or(total.max(1));
    let ideal = f64::from(set.wanted) * f64::from(allowed) / f64::from(base);
    // Numbers of machines are far below what a float cannot tell apart.
    ideal.round() as i32 - set.wanted
}

#[cfg(test)]
mod tests;
