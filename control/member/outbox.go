package member

import (
	"context"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// cleanOutbox removes the mails to members who were removed or erased, and to those who have signed in and whose links
// work no more.
func (s *Service) cleanOutbox(ctx context.Context) error {
	return s.cfg.Mails.Clean(api.PrefixMember, func(id string) (needed bool, err error) {
		m, err := findAny(ctx, s.db.Read(), id)
		if err != nil && store.IsNone(err) {
			return false, nil
		}
		if err != nil || m.State == Removed || m.erased() {
			return false, err
		}
		open, err := store.One(ctx, s.db.Read(), "a link", store.Text, `SELECT member_id FROM member_links WHERE member_id = $1 AND expires_at > $2 LIMIT 1`, id, store.At(s.db.Now()))
		return m.State == Invited || open != nil, err
	})
}
