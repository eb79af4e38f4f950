import { at, type Caller } from './call.js';
import type { Body, Data, Filter } from './types.js';

export type Basis = Data<'get-basis'>['basis'];
export type NewBasis = Body<'create-basis'>;
export type Right = Data<'get-right'>['right'];
export type NewRight = Body<'issue-right'>;
export type MovedRight = Data<'suspend-right'>;
export type Offer = Data<'get-offer'>['offer'];
export type NewOffer = Body<'propose-offer'>;
export type CounterOffer = Body<'counter-offer'>;
export type Challenge = Data<'get-challenge'>['challenge'];
export type NewChallenge = Body<'open-challenge'>;

/** Legal bases, on which rights rest. */
export class Bases {
  constructor(private readonly c: Caller) {}

  /** Registers a basis. */
  create(basis: NewBasis): Promise<Basis> {
    return this.c.record({ method: 'POST', path: '/v1/bases', body: basis }, 'basis');
  }

  /** Newest first. */
  list(filter?: Filter<'list-bases'>): AsyncGenerator<Basis> {
    return this.c.list('/v1/bases', 'bases', filter);
  }

  get(basisId: string): Promise<Basis> {
    return this.c.record({ method: 'GET', path: at`/v1/bases/${basisId}` }, 'basis');
  }
}

/** Rights permit deliveries. */
export class Rights {
  constructor(private readonly c: Caller) {}

  /** Issues a right. */
  issue(right: NewRight): Promise<Right> {
    return this.c.record({ method: 'POST', path: '/v1/rights', body: right }, 'right');
  }

  /** Newest first. */
  list(filter?: Filter<'list-rights'>): AsyncGenerator<Right> {
    return this.c.list('/v1/rights', 'rights', filter);
  }

  get(rightId: string): Promise<Right> {
    return this.c.record({ method: 'GET', path: at`/v1/rights/${rightId}` }, 'right');
  }

  /** What the right rests on and what derives from it. */
  provenance(rightId: string): Promise<Data<'get-right-provenance'>> {
    return this.c.data({ method: 'GET', path: at`/v1/rights/${rightId}/provenance` });
  }

  /** Which nodes know of the last change of the right. */
  propagation(rightId: string): Promise<Data<'get-right-propagation'>> {
    return this.c.data({ method: 'GET', path: at`/v1/rights/${rightId}/propagation` });
  }

  /** Stops deliveries until resume. */
  suspend(rightId: string, reason?: string): Promise<MovedRight> {
    return this.c.data({ method: 'POST', path: at`/v1/rights/${rightId}/suspend`, body: because(reason) });
  }

  /** Allows deliveries again. */
  resume(rightId: string, reason?: string): Promise<MovedRight> {
    return this.c.data({ method: 'POST', path: at`/v1/rights/${rightId}/resume`, body: because(reason) });
  }

  /**
   * Stops deliveries for good. Deliveries may be receipted until the result, or a later propagation,
   * says that the revocation is applied.
   */
  revoke(rightId: string, reason?: string): Promise<MovedRight> {
    return this.c.data({ method: 'POST', path: at`/v1/rights/${rightId}/revoke`, body: because(reason) });
  }
}

/** The body of requests that may say why. */
export const because = (reason?: string) => (reason ? { reason } : {});

/** Offers of a right to another organisation. */
export class Offers {
  constructor(private readonly c: Caller) {}

  propose(offer: NewOffer): Promise<Offer> {
    return this.c.record({ method: 'POST', path: '/v1/offers', body: offer }, 'offer');
  }

  /** Newest first. */
  list(filter?: Filter<'list-offers'>): AsyncGenerator<Offer> {
    return this.c.list('/v1/offers', 'offers', filter);
  }

  get(offerId: string): Promise<Offer> {
    return this.c.record({ method: 'GET', path: at`/v1/offers/${offerId}` }, 'offer');
  }

  /** Makes a new offer in the opposite direction. */
  counter(offerId: string, offer: CounterOffer): Promise<Data<'counter-offer'>> {
    return this.c.data({ method: 'POST', path: at`/v1/offers/${offerId}/counter`, body: offer });
  }

  /** Issues the right that derives from the offer. */
  accept(offerId: string): Promise<Data<'accept-offer'>> {
    return this.c.data({ method: 'POST', path: at`/v1/offers/${offerId}/accept` });
  }

  /** Takes an offer back, by its proposer. */
  withdraw(offerId: string, reason?: string): Promise<Offer> {
    return this.c.record({ method: 'POST', path: at`/v1/offers/${offerId}/withdraw`, body: because(reason) }, 'offer');
  }

  /** Turns an offer down, by its recipient. */
  reject(offerId: string, reason?: string): Promise<Offer> {
    return this.c.record({ method: 'POST', path: at`/v1/offers/${offerId}/reject`, body: because(reason) }, 'offer');
  }
}

/** Challenges contest rights. */
export class Challenges {
  constructor(private readonly c: Caller) {}

  /** Opens a challenge against a right. */
  open(challenge: NewChallenge): Promise<Challenge> {
    return this.c.record({ method: 'POST', path: '/v1/challenges', body: challenge }, 'challenge');
  }

  /** Newest first. */
  list(filter?: Filter<'list-challenges'>): AsyncGenerator<Challenge> {
    return this.c.list('/v1/challenges', 'challenges', filter);
  }

  get(challengeId: string): Promise<Challenge> {
    return this.c.record({ method: 'GET', path: at`/v1/challenges/${challengeId}` }, 'challenge');
  }

  /** Decides a challenge. One that is upheld revokes the right. */
  resolve(challengeId: string, how: Body<'resolve-challenge'>): Promise<Data<'resolve-challenge'>> {
    return this.c.data({ method: 'POST', path: at`/v1/challenges/${challengeId}/resolve`, body: how });
  }

  /** Ends a challenge without a decision. */
  withdraw(challengeId: string, reason?: string): Promise<Challenge> {
    return this.c.record({ method: 'POST', path: at`/v1/challenges/${challengeId}/withdraw`, body: because(reason) }, 'challenge');
  }
}
